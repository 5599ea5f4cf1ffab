"""What compilations came to, kept from one process to the next: one SQLite file, bounded in size.

The key is a digest of all that decides the result (`Compiler`); a value is a record (JSON) and, where they were asked
for, the program's bytes. A file that cannot be used (a read-only folder, a damaged file) is as good as none: results
are computed again.
"""

import contextlib
import json
import os
import sqlite3
import threading
import time
import zlib
from pathlib import Path
from typing import Any

VERSION = 1
PUTS_BETWEEN_PRUNES = 64
HOUR = 3600


def default_path() -> Path | None:
    """None where the settings say that nothing is kept."""
    folder = os.environ.get("TORCH_PJRT_CACHE_DIR", "")
    if folder == "none":
        return None
    if not folder:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(cache, "torch_pjrt")
    return Path(folder) / "aot" / "results.sqlite"


class Store:
    """Thread-safe; several processes may use one file."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.error: Exception | None = None  # why nothing is kept
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._n_puts = 0
        self._connection: sqlite3.Connection | None = None
        with self._lock:
            self._connect()

    def _connect(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=20, isolation_level=None, check_same_thread=False)
            with contextlib.suppress(sqlite3.OperationalError):  # not on every file system
                self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            if self._connection.execute("PRAGMA user_version").fetchone()[0] not in (0, VERSION):
                self._connection.execute("DROP TABLE IF EXISTS result")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS result (key BLOB PRIMARY KEY, record TEXT NOT NULL, serialized BLOB, "
                "optimized BLOB, n_bytes INTEGER NOT NULL, last_use INTEGER NOT NULL) WITHOUT ROWID"
            )
            self._connection.execute(f"PRAGMA user_version={VERSION}")
        except (sqlite3.Error, OSError) as error:
            self._connection, self.error = None, error

    def _usable(self) -> sqlite3.Connection | None:
        if self._pid != os.getpid():  # SQLite's connections do not survive fork
            self._pid, self._connection = os.getpid(), None
            self._connect()
        return self._connection

    def get(self, key: bytes) -> tuple[dict[str, Any], bytes | None, bytes | None] | None:
        """The record, the serialized and the optimized program, each None where it was not kept."""
        with self._lock:
            if (connection := self._usable()) is None:
                return None
            try:
                row = connection.execute(
                    "SELECT record, serialized, optimized, last_use FROM result WHERE key = ?", (key,)
                ).fetchone()
                if row is None:
                    return None
                now = int(time.time())
                if now - row[3] > HOUR:
                    connection.execute("UPDATE result SET last_use = ? WHERE key = ?", (now, key))
                serialized, optimized = (None if blob is None else zlib.decompress(blob) for blob in row[1:3])
                return json.loads(row[0]), serialized, optimized
            except (sqlite3.Error, ValueError, zlib.error):
                return None

    def put(self, key: bytes, record: dict[str, Any], serialized: bytes | None, optimized: bytes | None) -> None:
        text = json.dumps(record)
        blobs = [None if blob is None else zlib.compress(blob, 1) for blob in (serialized, optimized)]
        n_bytes = 200 + len(text) + sum(len(blob) for blob in blobs if blob is not None)
        with self._lock:
            if (connection := self._usable()) is None:
                return
            try:
                connection.execute(
                    "INSERT OR REPLACE INTO result VALUES (?, ?, ?, ?, ?, ?)",
                    (key, text, *blobs, n_bytes, int(time.time())),
                )
                self._n_puts += 1
                if self._n_puts % PUTS_BETWEEN_PRUNES == 1:
                    self._prune(connection)
            except sqlite3.Error as error:
                self.error = error

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Those that were not used for longest go, until three quarters are left."""
        total = connection.execute("SELECT COALESCE(SUM(n_bytes), 0) FROM result").fetchone()[0]
        if total <= self.most_bytes:
            return
        gone = []
        for key, n_bytes in connection.execute("SELECT key, n_bytes FROM result ORDER BY last_use"):
            if total <= self.most_bytes * 3 // 4:
                break
            gone.append((key,))
            total -= n_bytes
        connection.execute("BEGIN")
        connection.executemany("DELETE FROM result WHERE key = ?", gone)
        connection.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None
