"""The catalogue of reasons why a service does not run: a stable code for each sentence, its meaning and its cure.

Sentences name tables, instants and numbers, and may be worded better some day. A code stays. It is found by the
beginning of the sentence, or by words in it, so that decisions of the store have codes, too. `tests/unit/service/model`
proves that each sentence of the package has a code of its own, and not only `other`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, Due, NotDue, WouldRun


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """A reason: its `code`, what it means, and what to do about it. `words` is a pattern of its sentences."""

    code: str
    words: re.Pattern[str]
    meaning: str
    cure: str


def _reason(code: str, words: str, meaning: str, cure: str) -> Reason:
    return Reason(code=code, words=re.compile(words), meaning=meaning, cure=cure)


_NOTHING = "Nothing. It changes by itself."

BLOCKS: tuple[Reason, ...] = (
    _reason(
        "observed_only",
        r"^the table is only observed",
        "The mode of the table is `observe`.",
        "Set `mode` to `plan` or `act`.",
    ),
    _reason(
        "paused", r"^paused: ", "An operator has paused the table.", "Resume it: `lakewarden tables resume TABLE`."
    ),
    _reason(
        "quarantined",
        r"^in quarantine: ",
        "Runs of the service have failed several times in a row.",
        "Mend the cause that the sentence names. Then resume the table.",
    ),
    _reason(
        "proof_missing",
        r"^would run once the table is proved: ",
        "The service is due, and the policy of the table asks for a proof that is not complete (`act_when`).",
        "Look at each check, and do what its cure says: `lakewarden doctor TABLE`.",
    ),
    _reason(
        "approval_needed",
        r"^would delete ",
        "The run would delete more than the deletion budget of the table allows, it is the first clean of the table, "
        "or its policy keeps less than was kept before.",
        "Look at the figures, then approve exactly this deletion: `lakewarden approvals`.",
    ),
    _reason(
        "backing_off",
        r"^backing off: ",
        "The last run failed. The next attempt waits.",
        "Read why the run failed. The service runs again by itself.",
    ),
    _reason(
        "not_observed",
        r"^the table cannot be observed: ",
        "The metadata of the table cannot be read, or its catalog or its store does not answer.",
        "Mend what the sentence names: a file, an address or a login. The table is read again by itself.",
    ),
    _reason(
        "metadata_damaged",
        r"^the table's metadata cannot be read whole",
        "A part of the metadata cannot be read.",
        "Restore the file that the sentence names.",
    ),
    _reason(
        "claimed_elsewhere",
        r"^claimed by |^its claim cannot be kept",
        "A daemon with another store acts on the table.",
        "Remove the table from one of the two daemons.",
    ),
    _reason(
        "registered_twice",
        r"^its folder is also registered as ",
        "Two registered tables turned out to lie in one folder, for example two names in catalogs. Neither is served.",
        "Remove one of the two entries. The other one goes on by itself.",
    ),
    _reason(
        "instant_in_the_future",
        r"^instant \S+ is dated ",
        "A commit is dated in the future. What is planned before that time would sort before it.",
        "Compare the clocks of the writer and the daemon. The services go on at that time.",
    ),
    _reason(
        "clock_ahead",
        r"^this daemon's clock is .* ahead of the clock of the table's storage",
        "A commit of this daemon would be dated in the future, and the next commits of the writers would fail.",
        "Set the clock of the daemon's machine.",
    ),
    _reason(
        "run_active", r"^run .* is active", "A run of the service has not ended.", "Wait for it, or cancel the run."
    ),
    _reason(
        "guarded_by_heartbeat",
        r"^instant .* is guarded by the heartbeat|if it is alive, a .* would hide",
        "Another executor or a write that may be alive holds an instant.",
        "Nothing. It ends with the heartbeat.",
    ),
    _reason(
        "plan_of_a_writer",
        r"^plan .* was made by a writer",
        "A writer has made the plan, and the policy leaves it to the writer.",
        "Set `schedule: both` if the writers leave execution to Lakewarden.",
    ),
    _reason(
        "lock_missing",
        r"^no lock |under the lock of the catalog",
        "The options of the table name no lock that the writers share.",
        "Name the lock of the writers in `options.lock`.",
    ),
    _reason(
        "lock_not_shared",
        r"^the table's writers use another lock",
        "A commit was made while no writer took the lock that is named.",
        "Give all writers the options of `lakewarden writer-options TABLE`.",
    ),
    _reason(
        "lock_not_proved",
        r"^not yet known whether the table's writers use the lock|lock leaves no trace",
        "Nothing has shown yet that the writers take the lock that is named.",
        "Wait for a commit of a writer. If the lock leaves no trace, compare the options. Then set `lock_proof`.",
    ),
    _reason(
        "zone_not_proved",
        r"the zone of its timeline is not proved|^its (timeline is|instants are stamped) in ",
        "The time zone of the timeline is not that of the session workers, or is not known.",
        "Set `options.timeline_timezone` of the table, or `spark.<profile>.timezone`, to the zone of its writers.",
    ),
    _reason(
        "pointer_behind",
        r"is a newer version of this table than|is a version of this table beside those|clients believe the hint",
        "The folder of the table has a version that its catalog, or its hint of the newest version, does not know.",
        "Let one catalog alone have the table, at its newest version. If the pointer was set back on purpose, move the "
        "newer versions away. Correct or delete the hint that the sentence names (`version-hint.text` of a Hadoop "
        "catalog).",
    ),
    _reason(
        "shared_folder",
        r"is a copy of the metadata of |is also the folder of ",
        "The table shares its folder with a table of another format, and is not the one that the other is made from.",
        "Register the source in its place, or give each table a folder of its own. The sentence names both.",
    ),
    _reason(
        "moved_or_copied",
        r"it was moved, or it is a copy|it is not executed|may be another table's|may belong to others|is not deleted$",
        "Files that a service would touch may belong to another table.",
        "Register the table where its writers write, or remove the plans of its original.",
    ),
    _reason(
        "writers_do_it",
        r"^write-only is false|^the commit user ",
        "The writers do the work of the service themselves.",
        "Set `write-only=true` on the table and restart its writers, or remove the policy.",
    ),
    _reason(
        "writers_do_not_block",
        r"^the table's writers (do not block|\{|can|may|use|write|check|spread|have|are)",
        "The writers commit in a way that the service cannot stand beside.",
        "Change the settings of the writers as the remedy says, or remove the policy.",
    ),
    _reason(
        "properties_broken_off",
        r"^[a-z]+\.properties broke off",
        "An update of the file with the properties of the table was broken off. Keys or values are missing in it.",
        "Compare it with its backup, and complete it. The sentence names the keys.",
    ),
    _reason(
        "index_in_the_way",
        r"index|partition stats|column stats|metadata table",
        "An index or the metadata table of the table is not complete, or Lakewarden cannot keep it up.",
        "Do what the remedy says: build, drop or repair it.",
    ),
    _reason(
        "other_plan_first",
        r"^clean .* is pending, and goes first|^savepoint .* is in flight|at savepoint|^restore .* is in flight"
        r"|is told before an archive",
        "Another action on the table has to end first.",
        "Nothing if it ends. Else end it as the remedy says.",
    ),
    _reason(
        "reader_not_readable",
        r"^the position of reader ",
        "The position of a declared incremental reader is not known.",
        "Correct `options.readers`, or remove the reader.",
    ),
    _reason(
        "doubled_vectors",
        r"two deletion vectors",
        "A data file has two deletion vectors, so no engine can read it.",
        "Replace both by one vector with the rows of both.",
    ),
    _reason(
        "deletes_by_dropped_column",
        r"deletes rows by the column .*, which was dropped",
        "Live equality deletes delete by a column that was dropped, so no engine can read the current snapshot.",
        "Have the column again under its field id, rewrite all files, and drop it again, as the sentence says.",
    ),
    _reason(
        "order_missing",
        r"^neither the table nor its clustering policy has an order",
        "A clustering has no order to put the rows in.",
        "Set `sort_order` or `zorder` in the options of its clustering policy, or give the table an order.",
    ),
    _reason(
        "manifest_list_lost",
        r"has lost its manifest",
        "The manifest list or a manifest of a snapshot is lost or damaged, so it is not known which files it needs.",
        "Restore the file, or expire the snapshot as the sentence says. A clean that expires it needs no help.",
    ),
    _reason(
        "unsupported_version",
        r"version .* is unknown to Lakewarden|has no sequence number|no manifest list",
        "The version of the table does not allow the service.",
        "Upgrade Lakewarden or the table.",
    ),
    _reason(
        "unsupported_store",
        r"[Tt]he store of |in the store of |into the store of |renaming a file|table bucket of S3 Tables"
        r"|deletes and marks nothing at |no folder of its own",
        "The store or the place of the table does not allow the service.",
        "Use a store that does, or remove the policy.",
    ),
    _reason(
        "unsupported_table",
        r"^the table has no partitions|^the table is copy-on-write"
        r"|encrypted|columns of type|base files are|loses in ORC files|compressed by zstd|the table uses "
        r"|streaming sink"
        r"|partition\.mark-done-action|metastore\.partitioned-table|a catalog lists the partitions"
        r"|overwrites the partitions that it sorts|merges small manifests by itself"
        r"|cannot rewrite all files|has no snapshot, so|have outlived their snapshots",
        "The table has a feature that the service does not support.",
        "Remove the policy, or the feature.",
    ),
)
"""The reasons of `Blocked`, in the order in which they are tried."""

NOT_APPLICABLE: tuple[Reason, ...] = (
    _reason(
        "does_not_apply",
        r"",
        "The service has nothing to do on a table of this kind.",
        "Nothing. The policy does no harm.",
    ),
)
"""The reasons of `DoesNotApply`."""

WAITS: tuple[Reason, ...] = (
    _reason("run_active", r"^run .* is active", "A run of the service has not ended.", _NOTHING),
    _reason(
        "left_to_its_author",
        r"is left to it for a grace time|^its plans are made by the table's writers",
        "A plan of another author is left to its author.",
        "Nothing. `grace` and `schedule` of the policy say for how long.",
    ),
    _reason(
        "new_settings_wait",
        r"^the new settings of the table wait",
        "The settings of the table have changed by a reload. A run that began with the old ones has not ended.",
        "Nothing. The new settings are in force when the runs of the table have ended.",
    ),
    _reason("outside_window", r"^outside its window", "The policy allows the service only in its window.", _NOTHING),
    _reason(
        "setting_missing",
        r" is not set: |: set one of them",
        "A setting without a default is missing.",
        "Set the setting that the sentence names.",
    ),
    _reason(
        "commit_in_the_future",
        r"ahead of this daemon's clock",
        "The newest commit is dated in the future, and a commit with an earlier time would be refused.",
        "Compare the clocks of the writer and the daemon. The service goes on at that time.",
    ),
    _reason(
        "nothing_to_do",
        r"nothing|^none of |^no part|^no partition|has its statistics|would rewrite|is left alone|are left alone",
        "There is no work for the service now.",
        _NOTHING,
    ),
    _reason("trigger_not_reached", r"", "The trigger of the policy does not fire yet.", _NOTHING),
)
"""The reasons of `NotDue`, in the order in which they are tried. The last one is for the sentences of triggers."""

DUE = _reason("due", r"", "The service is to run now.", "Nothing. It runs when a slot is free.")

WOULD_RUN = _reason(
    "would_run",
    r"",
    "The service is due, and the mode of the table is `plan`. `explain` says what the run would do.",
    "Set `mode` to `act` if it may run.",
)

OTHER = _reason(
    "other",
    r"",
    "A block that has no code of its own, for example settings that the format refuses.",
    "Read the sentence and its remedy.",
)

CATALOGUE: tuple[Reason, ...] = tuple(
    {one.code: one for one in (*BLOCKS, *NOT_APPLICABLE, *WAITS, DUE, WOULD_RUN, OTHER)}.values()
)
"""Every reason once."""

CODES = tuple(one.code for one in CATALOGUE)


def code_of(decision: Decision) -> str:
    """Return the code of a decision. It is always one of `CODES`."""
    return code_for(type(decision).__name__, decision.reason)


def code_for(decision: str, reason: str) -> str:
    """Return the code of a decision by its name and its sentence, as the store keeps them."""
    match decision:
        case Due.__name__:
            return DUE.code
        case WouldRun.__name__:
            return WOULD_RUN.code
        case Blocked.__name__:
            known = BLOCKS
        case NotDue.__name__:
            known = WAITS
        case DoesNotApply.__name__:
            known = NOT_APPLICABLE
        case _:
            return OTHER.code
    return next((one.code for one in known if one.words.search(reason)), OTHER.code)
