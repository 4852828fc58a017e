"""Decisions issued under an id: stored before they are answered, and read again."""

import dataclasses
from collections.abc import Iterator

from postgrad.store.changes.issue_rows import IssueRows
from postgrad.store.database import Database
from postgrad.store.opening.page_checks import check_pages_once
from postgrad.store.state_rows import StateRows
from postgrad.store.stored_state import Commit, Issue, StreamHead


class IssuedDecisions:
    """What a `Store` does with issued decisions. Going back leaves them: they were issued."""

    database: Database
    _stream: int
    _states: StateRows
    _issues: IssueRows

    def issue(self, head: StreamHead, issue: Issue) -> StreamHead:
        """Store an issued decision, in one transaction. State and batches stay as they are.

        Args:
            head: The latest state.
            issue: The decision; its id must be new, see `issued`.

        Raises:
            StaleStateError: If another process has written since `head` was read;
                nothing was stored.
            StoreError: If the transaction failed. Nothing was stored then, unless it says that it
                may have been.
        """
        new = dataclasses.replace(head, commits=head.commits + 1, issued=head.issued + 1)
        with self.database.transaction():
            self._states.update(head, new)
            self._issues.insert(new.issued, issue)
            self.database.note(Commit(self._stream, head, new))
        return new

    def issued(self, name: str) -> Issue | None:
        """The decision that was issued under an id; None if there is none.

        Raises:
            StoreError: If it, or the index of ids, is damaged.
        """
        check_pages_once(self.database)
        found = self._issues.find(name)
        if found is not None:
            self.database.check_file()
        return found

    def last_issued(self) -> Issue | None:
        """The decision that was issued last; None if there is none.

        Raises:
            StoreError: If it is damaged or missing.
        """
        return next(self.issues(1), None)

    def issues(self, last: int | None = None) -> Iterator[Issue]:
        """Issued decisions in order, as of now, read as they are asked for.

        Args:
            last: Only so many of the latest.

        Raises:
            StoreError: At the first one that is damaged or missing.
        """
        count = self._issues.count()
        first = 1 if last is None else count - last + 1
        return self._issues.read(first, count)
