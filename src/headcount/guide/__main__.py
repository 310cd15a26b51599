"""`python -m headcount.guide` prints the numbers of the guide as JSON."""

import json

from headcount.guide.numbers import numbers

if __name__ == "__main__":
    print(json.dumps(numbers(), ensure_ascii=False, allow_nan=False))
