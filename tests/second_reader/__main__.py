"""A second reader of parhelia's stores, written from docs/format/ alone.

    python tests/second_reader list STORE
    python tests/second_reader check STORE
    python tests/second_reader restore STORE CHECKPOINT FOLDER
    python tests/second_reader salvage STORE [CHECKPOINT FOLDER]     # from its packs alone
"""

import json
import sys

from check import check
from encoding import Damage
from restore import restore
from store import NotForUs, Store


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("list", "check", "restore", "salvage"):
        print(__doc__, file=sys.stderr)
        return 2
    verb, folder, *rest = arguments
    try:
        store = Store.from_packs(folder) if verb == "salvage" else Store(folder)
        if verb == "salvage" and not rest:
            told = {"checkpoints": list(store.checkpoints), "notes": store.objects.notes}
            print(json.dumps(check(store, cuts=False) | told))
        elif verb == "list":
            heads = {session: store.head(session) for session in store.sessions}
            told = {"checkpoints": list(store.checkpoints), "heads": heads, "latest": store.latest()}
            print(json.dumps(told | {"missing": store.journal.missing, "torn_bytes": store.journal.torn_bytes, "unreadable": store.unreadable}))
        elif verb == "check":
            print(json.dumps(check(store)))
        else:
            restore(store, store.checkpoints[rest[0]], rest[1])
    except Damage as error:
        print(f"damaged: {error}", file=sys.stderr)
        return 1
    except NotForUs as error:
        print(f"this reader does not know {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
