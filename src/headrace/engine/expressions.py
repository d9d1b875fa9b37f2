"""The types of the expressions that frames take, for annotations outside the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datafusion import Expr
    from datafusion.expr import SortExpr

    # An SQL expression as text, or an expression of datafusion.
    Expression: TypeAlias = str | Expr
    # A column name, or an expression of datafusion.
    SortKey: TypeAlias = str | Expr | SortExpr
