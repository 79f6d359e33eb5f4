"""The catalogue of reasons why a service does not run: a stable code for each sentence, its meaning and its cure.

A decision and a blocker carry their code from where they are made. `tests/unit/service/model` proves that each code
that is made in the package is in this table, and that each place names one.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.planners.model import decision


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: its `code`, what it means, and what to do about it."""

    code: str
    meaning: str
    cure: str


_NOTHING = "Nothing. It changes by itself."

BLOCKS: tuple[Reason, ...] = (
    Reason(
        "observed_only",
        "The mode of the table is `observe`.",
        "Set `mode` to `plan` or `act`.",
    ),
    Reason("paused", "An operator has paused the table.", "Resume it: `lakewarden tables resume TABLE`."),
    Reason(
        "quarantined",
        "Runs of the service have failed several times in a row.",
        "Fix the cause that the sentence names. Then release the service: `lakewarden quarantine release TABLE "
        "SERVICE`.",
    ),
    Reason(
        "proof_missing",
        "The service is due, but the table is not proved yet (`act_when: proved`).",
        "Do what the cure of each failed check says: `lakewarden doctor TABLE`.",
    ),
    Reason(
        "approval_needed",
        "The run would delete more than the deletion budget of the table allows, it is the first clean of the table, "
        "or its policy keeps less than was kept before.",
        "Check the figures, then approve exactly this deletion: `lakewarden approvals approve TABLE SERVICE`.",
    ),
    Reason(
        "backing_off",
        "The last run failed or was cancelled. The next attempt waits.",
        "Read how the run ended. The service runs again by itself, or at once after `lakewarden quarantine "
        "release TABLE SERVICE`.",
    ),
    Reason(
        "not_observed",
        "The metadata of the table cannot be read, or its catalog or its store does not answer.",
        "Fix what the sentence names: a file, an address or a login. The table is read again by itself.",
    ),
    Reason(
        "metadata_damaged",
        "A part of the metadata cannot be read.",
        "Restore the file that the sentence names.",
    ),
    Reason(
        "registered_twice",
        "Two registered tables are one folder, for example two names in catalogs. Neither is served.",
        "Remove one of the two entries. The other one goes on by itself.",
    ),
    Reason(
        "instant_in_the_future",
        "A commit is dated in the future. Plans made before that time would sort before it.",
        "Compare the clocks of the writer and the daemon. The services go on at that time.",
    ),
    Reason(
        "run_active", "A run of the service has not ended.", "Wait for it, or cancel it: `lakewarden runs cancel RUN`."
    ),
    Reason(
        "guarded_by_heartbeat",
        "Another executor, or a write that may be alive, holds an instant.",
        "Nothing. The service goes on when the heartbeat ends.",
    ),
    Reason(
        "plan_of_a_writer",
        "A writer has made the plan, and the policy leaves it to the writer.",
        "Set `schedule: both` if the writers leave execution to Lakewarden.",
    ),
    Reason(
        "lock_missing",
        "The table has no lock that its writers share.",
        "Set the lock of the writers in `options.lock`.",
    ),
    Reason(
        "lock_not_shared",
        "A commit was made without the configured lock.",
        "Give all writers the options of `lakewarden writer-options TABLE`.",
    ),
    Reason(
        "lock_not_proved",
        "It is not proved yet that the writers take the configured lock.",
        "Wait for a commit of a writer. If the lock leaves no trace, compare the options. Then set `lock_proof`.",
    ),
    Reason(
        "zone_not_proved",
        "The time zone of the timeline is not that of the session workers, or is not known.",
        "Set `options.timeline_timezone` of the table, or `spark.<profile>.timezone`, to the zone of its writers.",
    ),
    Reason(
        "pointer_behind",
        "The folder of the table has a newer version than its catalog or its version hint.",
        "Keep the table in one catalog only, at its newest version. If the pointer was set back on purpose, move the "
        "newer versions away. Correct or delete the hint that the sentence names (`version-hint.text` of a Hadoop "
        "catalog).",
    ),
    Reason(
        "shared_folder",
        "The table shares its folder with a table of another format, and is not the one that the other is made from.",
        "Register the source in its place, or give each table a folder of its own. The sentence names both.",
    ),
    Reason(
        "moved_or_copied",
        "Files that a service would touch may belong to another table.",
        "Register the table under the path that its writers use. In a copy, withdraw the plans of its original as the "
        "remedy says.",
    ),
    Reason(
        "writers_do_it",
        "The writers do the work of the service themselves.",
        "Set `write-only=true` on the table and restart its writers, or remove the policy.",
    ),
    Reason(
        "writers_do_not_block",
        "The service is not safe beside writers that commit this way.",
        "Change the settings of the writers as the remedy says, or remove the policy.",
    ),
    Reason(
        "properties_broken_off",
        "An update of the table's properties file was interrupted. Keys or values are missing.",
        "Compare the file with its backup, and complete it. The sentence names the keys.",
    ),
    Reason(
        "index_in_the_way",
        "An index or the metadata table is incomplete, or Lakewarden cannot maintain it.",
        "Do what the remedy says: build, drop or repair it.",
    ),
    Reason(
        "other_plan_first",
        "Another action on the table has to end first.",
        "Nothing, if it ends by itself. Otherwise end it as the remedy says.",
    ),
    Reason(
        "reader_not_readable",
        "The position of a declared incremental reader is not known.",
        "Correct `options.readers`, or remove the reader.",
    ),
    Reason(
        "doubled_vectors",
        "A data file has two deletion vectors, so no engine can read it.",
        "Replace both by one vector with the rows of both.",
    ),
    Reason(
        "deletes_by_dropped_column",
        "Live equality deletes delete by a column that was dropped, so no engine can read the current snapshot.",
        "Add the column again under its field id, rewrite all files, and drop it again, as the sentence says.",
    ),
    Reason(
        "order_missing",
        "Clustering has no sort order.",
        "Set `sort_order` or `zorder` in the options of its clustering policy, or give the table a sort order.",
    ),
    Reason(
        "manifest_list_lost",
        "The manifest list or a manifest of a snapshot is lost or damaged, so the files it needs are not known.",
        "Restore the file, or expire the snapshot as the sentence says. A clean that expires it needs no help.",
    ),
    Reason(
        "files_needed_elsewhere",
        "A property of the table says that other tables or branches may need its files.",
        "Remove the policies that delete, or do what the remedy says.",
    ),
    Reason(
        "setting_missing",
        "A setting without a default is missing.",
        "Set the setting that the sentence names.",
    ),
    Reason(
        "settings_refused",
        "The settings of the service do not fit the table.",
        "Change the setting that the sentence names.",
    ),
    Reason(
        "metastore_away",
        "The metastore that the policy needs does not answer.",
        "Start it, or correct `options.metastore`. The other services go on.",
    ),
    Reason(
        "unsupported_version",
        "The service does not support the version of the table.",
        "Upgrade Lakewarden or the table.",
    ),
    Reason(
        "unsupported_store",
        "The service does not support the store or the path of the table.",
        "Use a store that does, or remove the policy.",
    ),
    Reason(
        "unsupported_table",
        "The table has a feature that the service does not support.",
        "Remove the policy, or the feature.",
    ),
)
"""The reasons of `Blocked`."""

NOT_APPLICABLE: tuple[Reason, ...] = (
    Reason(
        decision.DoesNotApply.code,
        "The service has nothing to do on a table of this kind.",
        "Nothing. The policy does no harm.",
    ),
)
"""The reasons of `DoesNotApply`."""

WAITS: tuple[Reason, ...] = (
    Reason("run_active", "A run of the service has not ended.", _NOTHING),
    Reason(
        "left_to_its_author",
        "A plan of another author is left to its author.",
        "Nothing. `grace` and `schedule` of the policy say for how long.",
    ),
    Reason(
        "new_settings_wait",
        "The settings of the table have changed by a reload. A run that began with the old ones has not ended.",
        "Nothing. The new settings are in force when the runs of the table have ended.",
    ),
    Reason("outside_window", "The policy allows the service only in its window.", _NOTHING),
    Reason(
        "commit_in_the_future",
        "The newest commit is dated in the future. A commit with an earlier time would be refused.",
        "Compare the clocks of the writer and the daemon. The service goes on at that time.",
    ),
    Reason(
        "writers_first",
        "A commit now could make a writer fail, or keep a branch from becoming main.",
        _NOTHING,
    ),
    Reason("after_a_run", "The last run has yielded or found nothing to do. The next attempt waits.", _NOTHING),
    Reason(
        decision.NOTHING_TO_DO,
        "There is no work for the service now.",
        _NOTHING,
    ),
    Reason("trigger_not_reached", "The trigger of the policy does not fire yet.", _NOTHING),
)
"""The reasons of `NotDue`."""

DUE = Reason(decision.Due.code, "The service is to run now.", "Nothing. It runs when a slot is free.")

WOULD_RUN = Reason(
    decision.WouldRun.code,
    "The service is due, and the mode of the table is `plan`. `explain` says what the run would do.",
    "Set `mode` to `act` if it may run.",
)

OTHER = Reason(
    decision.OTHER,
    "A block that has no code of its own, for example settings that the format refuses.",
    "Read the sentence and its remedy.",
)

CATALOGUE: tuple[Reason, ...] = tuple(
    {BLOCK.code: BLOCK for BLOCK in (*BLOCKS, *NOT_APPLICABLE, *WAITS, DUE, WOULD_RUN, OTHER)}.values()
)
"""Every reason once."""

CODES = tuple(reason.code for reason in CATALOGUE)
