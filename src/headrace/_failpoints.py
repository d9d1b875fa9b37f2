"""Named points at which a run can be made to die, so that recovery is something one can watch.

``HEADRACE_CRASH_AT=after-commit:3`` kills the whole driver, without a word, when epoch 3 gets there. Nothing else
reads the variable, and without it a point costs one look at the environment.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "HEADRACE_CRASH_AT"


def reach(point: str, epoch: int) -> None:
    """Die here if the environment says so: SIGKILL to the leader of this session, its group, and this process."""
    if os.environ.get(VARIABLE) == f"{point}:{epoch}":
        os.killpg(os.getsid(0), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
