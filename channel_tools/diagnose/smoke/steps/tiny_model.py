# mypy: ignore-errors
"""A Llama of two layers with random weights, and a tokenizer of letters: made here, nothing is downloaded."""

LETTERS = "abcdefghijklmnopqrstuvwxyz ,.'"
VOCABULARY = 512
CONTEXT = 256

# Large enough that the best next token leads clearly, so that rounding rarely turns the choice around.
SPREAD = 0.1


def make_tokenizer(folder):
    """A word-level tokenizer over single letters; the rest of the vocabulary is made up."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<unk>", "<s>", "</s>", *LETTERS]
    words += [f"w{number}" for number in range(VOCABULARY - len(words))]
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=CONTEXT,
    )
    fast.save_pretrained(folder)


def make_model(folder, torch, kind):
    """Write the model in one data type, and give it back in fp32 with the same, rounded, weights.

    :param folder: an existing, empty folder
    :param kind: data type of the weights in the file
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=CONTEXT,
        initializer_range=SPREAD,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).to(kind)
    model.save_pretrained(folder)
    make_tokenizer(folder)
    return model.float().eval()
