"""For authors of components: columns, by name and type, as documents, options and SQL have them."""

from mainstem.contracts.columns import check_names as check_names
from mainstem.contracts.columns import check_order as check_order
from mainstem.contracts.columns import check_types as check_types
from mainstem.contracts.columns import find_column as find_column
from mainstem.contracts.ddl import Column as Column
from mainstem.contracts.ddl import literal as literal
from mainstem.contracts.ddl import quoted as quoted
from mainstem.contracts.ddl import read_columns as read_columns
