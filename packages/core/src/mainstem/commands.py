"""For packages that add commands to the CLI: arguments that all commands share, plans, helpers, reports.

Never imports pyspark before `start` is called.
"""

from mainstem.cli.options import DryRun as DryRun
from mainstem.cli.options import File as File
from mainstem.cli.options import Form as Form
from mainstem.cli.options import Format as Format
from mainstem.cli.options import Set as Set
from mainstem.cli.options import Yes as Yes
from mainstem.cli.options import agreed as agreed
from mainstem.cli.options import load as load
from mainstem.observation.reporter import HelperRow as HelperRow
from mainstem.observation.reporter import JSONLines as JSONLines
from mainstem.observation.reporter import Reporter as Reporter
from mainstem.observation.reporter import Silent as Silent
from mainstem.plan.bootstrap import reads_of as reads_of
from mainstem.plan.model import Plan as Plan
from mainstem.plan.model import Stream as Stream
from mainstem.run.helpers import Helpers as Helpers
from mainstem.run.session import start as start
from mainstem.stopping import stopping_on_signals as stopping_on_signals
from mainstem.testing.preview import gather as gather
