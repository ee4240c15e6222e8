"""Lock files of every format that clients have, read and written."""
