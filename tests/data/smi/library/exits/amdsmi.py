import sys

sys.exit("no driver")
