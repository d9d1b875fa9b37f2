"""Named points in the code where a test or a demonstration can kill the process, to show recovery.

``HEADRACE_CRASH_AT=after-commit:3`` sends SIGKILL to the driver when epoch 3 reaches the point ``after-commit``. No
other module reads the variable. If it is not set, a failpoint costs one lookup in the environment.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "HEADRACE_CRASH_AT"


def reach(point: str, epoch: int) -> None:
    """Kill the session leader's process group and this process if the variable names this point and epoch."""
    if os.environ.get(VARIABLE) == f"{point}:{epoch}":
        os.killpg(os.getsid(0), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
