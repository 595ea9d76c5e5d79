"""For sources on position logs: an author says what there is, and reads ranges of it."""

from mainstem.positions.log import Begin as Begin
from mainstem.positions.log import Chunk as Chunk
from mainstem.positions.log import Gap as Gap
from mainstem.positions.log import Part as Part
from mainstem.positions.log import PositionLog as PositionLog
from mainstem.positions.log import Seen as Seen
from mainstem.positions.log import Span as Span
from mainstem.positions.log import another_log as another_log
from mainstem.positions.options import OnLoss as OnLoss
from mainstem.positions.options import PositionOptions as PositionOptions
from mainstem.positions.source import PositionSource as PositionSource
