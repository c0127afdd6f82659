"""Evaluates arithmetic that a model wrote: exactly, in bounded time, and without `eval`.

Numbers are fractions, so that 0.1 + 0.2 is 0.3 and 7 / 3 * 3 is 7. Only what is listed here is
computed; every size is limited before the work is done, so that 9**9**9 is refused at once.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable
from fractions import Fraction

MAX_LENGTH = 500
MAX_DEPTH = 50
MAX_BITS = 2048

_ALLOWED = "use numbers, + - * / // % **, and parentheses"
_TOO_LARGE = "a number in the expression is too large"

_BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Fraction], Fraction]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


class ArithmeticProblem(ValueError):
    """Why an expression has no value here, in words for whoever wrote it."""


def evaluate(expression: str) -> Fraction:
    """Compute an expression of numbers, `+ - * / // % **` and parentheses.

    Args:
        expression: At most `MAX_LENGTH` characters, nested at most `MAX_DEPTH` deep.

    Returns:
        The value; exact, except for powers with a fractional exponent.

    Raises:
        ArithmeticProblem: It is no such expression, has no value (a division by zero), or a number
            in it needs more than `MAX_BITS` bits.
    """
    text = expression.strip()
    if not text:
        raise ArithmeticProblem("the expression is empty")
    if len(text) > MAX_LENGTH:
        raise ArithmeticProblem(
            f"the expression has {len(text)} characters; at most {MAX_LENGTH} are allowed"
        )
    return _value(_parse(text), text, 0)


def format_number(value: Fraction) -> str:
    """Write a value as a person would: whole numbers without a point, others to 12 digits.

    Raises:
        ArithmeticProblem: It is not whole and too large for a float.
    """
    if value.denominator == 1:
        return str(value.numerator)
    try:
        return format(float(value), ".12g")
    except OverflowError:
        raise ArithmeticProblem("the result is too large to write down") from None


def _parse(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ArithmeticProblem(f"{text!r} is not an arithmetic expression") from None


def _value(node: ast.expr, text: str, depth: int) -> Fraction:
    if depth > MAX_DEPTH:
        raise ArithmeticProblem(f"the expression is nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return _constant(number)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, text, depth + 1))
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _value(left, text, depth + 1), _value(right, text, depth + 1))
    source = ast.get_source_segment(text, node)
    raise ArithmeticProblem(f"{source!r} is not allowed; {_ALLOWED}")


def _constant(number: int | float) -> Fraction:
    if not math.isfinite(number):
        raise ArithmeticProblem(_TOO_LARGE)
    return _bounded(Fraction(number if isinstance(number, int) else repr(number)))


def _binary(op: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    if isinstance(op, ast.Pow):
        return _power(left, right)
    if isinstance(op, ast.BitXor):
        raise ArithmeticProblem("'^' is not allowed; write ** for powers")
    if type(op) not in _BINARY:
        raise ArithmeticProblem(f"this operator is not allowed; {_ALLOWED}")
    try:
        return _bounded(_BINARY[type(op)](left, right))
    except ZeroDivisionError:
        raise ArithmeticProblem("division by zero") from None


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if base == 0 and exponent < 0:
        raise ArithmeticProblem("division by zero")
    if exponent.denominator == 1:
        if _bits(base) * abs(exponent.numerator) > MAX_BITS and base not in (0, 1, -1):
            raise ArithmeticProblem(_TOO_LARGE)
        return _bounded(base**exponent.numerator)
    if base < 0:
        raise ArithmeticProblem("a negative number has no such power")
    try:
        return _constant(float(base) ** float(exponent))
    except (OverflowError, ZeroDivisionError):
        raise ArithmeticProblem(_TOO_LARGE) from None


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > MAX_BITS:
        raise ArithmeticProblem(_TOO_LARGE)
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
