"""Fingerprints of what a user's functions read, and values kept for as long as that stays the same. Begin with `jitted`."""

from dalembert.interrupts import hear_in_collections
from dalembert.tracing.arguments import UNREAD, Content, content, rebuilder, split, taken_apart
from dalembert.tracing.cache import Pool, Remembered, is_unchanged, remember
from dalembert.tracing.disk import CODE, DISK, Disk, PrivateFolder
from dalembert.tracing.evaluation.rules import RULES, Slices, gather_slices, scatter_slices
from dalembert.tracing.fingerprint import Walk, key_of
from dalembert.tracing.jitted import TEXTS, Jitted, OnShapes, over_many_rows, over_rows, reading, seldom, traced_once
from dalembert.tracing.lasting import lasting_key
from dalembert.tracing.reads import DYNAMIC, REFLECTING, reflects
from dalembert.tracing.sources import source

hear_in_collections()
