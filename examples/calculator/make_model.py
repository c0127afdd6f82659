"""Make the demo's model: a tiny Qwen3 with random weights, its tokenizer and its chat template.

python examples/calculator/make_model.py --output DIR
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tasks import draw_tasks

from retrain.small_model import make_small_model

HERE = Path(__file__).parent


def demo_text() -> Iterator[str]:
    """Everything that the tokenizer is trained on: the demo's own turns."""
    for task in draw_tasks(200, seed=0):
        call = f'{{"name": "calculator", "arguments": {{"expression": "{task.expression}"}}}}'
        yield "system\nTools: calculator"
        yield f"user\n{task.prompt}"
        yield f"assistant\n<tool_call>\n{call}\n</tool_call>"
        yield f"user\n<tool_response>\n{task.left}\n</tool_response>"


def main() -> None:
    """Read the command line and write the model's folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE / "generated" / "model")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random weights")
    arguments = parser.parse_args()
    print(make_small_model(arguments.output, demo_text(), seed=arguments.seed))


if __name__ == "__main__":
    main()
