#!/usr/bin/env bash
# JSON text in plain bash: a build environment need not have Python or jq.

# REPLY: a JSON string, quotes included, for any value that a shell variable can hold. Bytes that are no
# UTF-8 become U+FFFD.
json_string() {
  local LC_ALL=C text=$1 code character escaped
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  if [[ $text == *[[:cntrl:]]* ]]; then
    for code in {1..31} 127; do
      printf -v escaped '\\x%02x' "$code"
      printf -v character '%b' "$escaped"
      printf -v escaped '\\u%04x' "$code"
      text=${text//"$character"/"$escaped"}
    done
  fi
  if [[ $text == *[$'\x80'-$'\xff']* ]] && ! is_utf8 "$text"; then
    text=${text//[$'\x80'-$'\xff']/\\ufffd}
  fi
  REPLY=\"$text\"
}

# Well-formed byte sequences: the Unicode standard, table 3-7. The locale of the caller must be C.
is_utf8() {
  local tail=$'[\x80-\xbf]'
  [[ $1 =~ ^([$'\x01'-$'\x7f']|[$'\xc2'-$'\xdf']$tail|$'\xe0'[$'\xa0'-$'\xbf']$tail|[$'\xe1'-$'\xec'$'\xee'$'\xef']$tail$tail|$'\xed'[$'\x80'-$'\x9f']$tail|$'\xf0'[$'\x90'-$'\xbf']$tail$tail|[$'\xf1'-$'\xf3']$tail$tail$tail|$'\xf4'[$'\x80'-$'\x8f']$tail$tail)*$ ]]
}
