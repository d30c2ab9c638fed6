# SPDX-License-Identifier: Apache-2.0
"""hash.py FILE...: 16 digits that change with any of the files."""
import hashlib
import sys

digest = hashlib.sha256()
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        digest.update(file.read())
print(digest.hexdigest()[:16])
