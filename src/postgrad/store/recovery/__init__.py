"""Files that are damaged, and their backups: checked, recovered, backed up, restored."""

from postgrad.store.recovery.backups import backup as backup
from postgrad.store.recovery.backups import restore as restore
from postgrad.store.recovery.checking import check as check
from postgrad.store.recovery.recover import Recovery as Recovery
from postgrad.store.recovery.recover import recover as recover
