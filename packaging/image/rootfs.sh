#!/bin/sh
# Makes the root file system of the container image from Debian packages, as root: rootfs.sh FILE.tar
#
# The image has no package manager and no Perl, which Debian's git depends on but the git commands that Berth runs do not
# need. The extracted packages are listed in /usr/share/berth/debian-packages.
set -eu
out=$1
suite=${BERTH_DEBIAN_SUITE:-bookworm}
packages=base-files,base-passwd,bash,bubblewrap,ca-certificates,coreutils,dash,findutils,git,grep,gzip,libgcc-s1,sed,tar
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mmdebstrap --quiet --variant=extract --include="$packages" \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --extract-hook='mkdir "$1/usr/share/berth"; ls "$1/var/cache/apt/archives" > "$1/usr/share/berth/debian-packages"' \
  "$suite" "$dir/root" 2>"$dir/log" || { cat "$dir/log" >&2; exit 1; }
cd "$dir/root"

# From names of files, such as git_1%3a2.39.5-0+deb12u2_amd64.deb.
sed -i -n 's/_[a-z0-9]*\.deb$//; t found; b; :found; s/_/ /; s/%3a/:/; p' usr/share/berth/debian-packages

# What maintainer scripts would have made.
cat usr/share/ca-certificates/mozilla/*.crt > etc/ssl/certs/ca-certificates.crt
cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
echo 'berth:x:10001:10001:Berth:/data:/usr/sbin/nologin' >> etc/passwd
echo 'berth:x:10001:' >> etc/group
echo 'berth-step:x:10002:10002:Berth steps:/:/usr/sbin/nologin' >> etc/passwd
echo 'berth-step:x:10002:' >> etc/group
install -d -m 0710 -g 10002 var/lib/berth-work
install -d -m 0700 -o 10001 -g 10001 data

# Perl, and the git commands that are written in it.
rm -rf usr/bin/perl* usr/lib/*-linux-gnu/perl* usr/lib/*-linux-gnu/libperl.so* usr/share/perl usr/share/perl5
grep -rIl '^#!/usr/bin/perl' usr/bin usr/lib/git-core | xargs -r rm -f
# Servers and tools of git that Berth does not run, transfers over WebDAV, and a second copy of git.
rm -rf usr/bin/git-shell usr/bin/scalar usr/share/gitweb usr/lib/git-core/git-shell usr/lib/git-core/scalar \
  usr/lib/git-core/git-daemon usr/lib/git-core/git-http-backend usr/lib/git-core/git-imap-send \
  usr/lib/git-core/git-http-push usr/lib/git-core/git-http-fetch
ln -sf ../../bin/git usr/lib/git-core/git
# Certificates that are also in the list made above, and commands that neither Berth nor usual steps run.
rm -rf usr/share/ca-certificates usr/bin/openssl usr/bin/dir usr/bin/vdir usr/bin/ptx usr/bin/csplit
# Libraries that no program here is linked to.
for library in libssl.so.3 engines-3 libmvec.so.1 'libbrotlienc.so.*' 'libexpatw.so.*' 'libgdbm*.so.*' libnsl.so.1 \
  libc_malloc_debug.so.0 libthread_db.so.1; do
  rm -rf usr/lib/*-linux-gnu/$library
done
# Character sets, except those of Europe.
find usr/lib/*-linux-gnu/gconv -name '*.so' ! -name 'ISO8859-*' ! -name 'UTF-*' ! -name 'CP125*' ! -name 'UNICODE*' -delete
rm -f usr/lib/*-linux-gnu/gconv/gconv-modules.cache usr/lib/*-linux-gnu/libdb-5.3.so
# The package manager, and files that no program here reads.
rm -rf usr/bin/dpkg* usr/bin/debconf* usr/share/debconf usr/share/dpkg usr/share/lintian usr/share/info usr/share/zsh \
  usr/share/bash-completion usr/include usr/games usr/src
rm -rf var/lib/dpkg var/lib/apt etc/apt etc/dpkg boot home media mnt opt srv
mkdir -p dev proc sys tmp run
chmod 1777 tmp
find dev -mindepth 1 -delete

tar --sort=name --numeric-owner --mtime=@"${SOURCE_DATE_EPOCH:-0}" -cf "$out" .
