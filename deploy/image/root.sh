#!/bin/sh
# The image's file system: root.sh BINARY FOLDER. The program, the libraries that it is linked to, certificate authorities,
# names of users, licences and the list of what is in it. All files have one time (SOURCE_DATE_EPOCH) and nobody's write bit.
set -eu

binary=$1 image=$2
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)

rm -rf "$image"
mkdir -p "$image/etc/ssl/certs" "$image/tmp" "$image/usr/share/doc/dovetail"
cp "$binary" "$image/dovetail"
strip "$image/dovetail" 2>/dev/null || true

# What the loader would load, and the loader, at the paths at which they look for each other.
ldd "$binary" | grep -o '/[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$image$(dirname "$library")"
    cp -L "$library" "$image$library"
done

cp -L /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/ca-certificates.crt"
printf 'root:x:0:0:root:/:/nowhere\nnonroot:x:65532:65532:nonroot:/:/nowhere\n' > "$image/etc/passwd"
printf 'root:x:0:\nnonroot:x:65532:\n' > "$image/etc/group"
printf 'hosts: files dns\n' > "$image/etc/nsswitch.conf"
cp "$repository/LICENSE" "$repository/NOTICE" "$image/usr/share/doc/dovetail/"
python3 "$here/sbom.py" "$repository/Cargo.lock" > "$image/usr/share/doc/dovetail/sbom.cdx.json"

find "$image" -type f -exec chmod 0444 {} +
find "$image" -type d -exec chmod 0755 {} +
chmod 0555 "$image/dovetail"
find "$image" -name 'ld-linux*' -exec chmod 0555 {} +
find "$image" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-0}" {} +
