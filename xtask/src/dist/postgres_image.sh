#!/bin/sh
# Makes a stand-in for the image docker.io/library/postgres from the PostgreSQL of this machine, for tests without a public
# registry: postgres_image.sh BASE TAG DIRECTORY-OF-PROGRAMS
set -eu
base=$1 tag=$2 bin=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/root/usr/lib/x86_64-linux-gnu" "$dir/root/usr/local/bin" "$dir/root/var/lib/postgresql/data"
# Programs find their libraries and files by paths relative to their own.
share=$("$bin/pg_config" --sharedir 2>/dev/null || echo /usr/share/postgresql/"$(basename "$(dirname "$bin")")")
for from in "$(dirname "$bin")" "$share"; do
  mkdir -p "$dir/root$(dirname "$from")"
  cp -a "$from" "$dir/root$(dirname "$from")/"
done
find "$dir/root" -name bitcode -prune -exec rm -rf {} +
for program in postgres initdb pg_isready; do
  ldd "$bin/$program" | awk '$3 ~ /^\// { print $3 }'
done | sort -u | xargs -I{} cp -Ln {} "$dir/root/usr/lib/x86_64-linux-gnu/"
chown 10001:10001 "$dir/root/var/lib/postgresql/data"
cat > "$dir/root/usr/local/bin/entrypoint" <<'X'
#!/bin/sh
set -eu
data=/var/lib/postgresql/data/main
if [ ! -s $data/PG_VERSION ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb -D $data -U "$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 $POSTGRES_INITDB_ARGS
  echo 'host all all all scram-sha-256' >> $data/pg_hba.conf
  echo "CREATE DATABASE $POSTGRES_DB;" | postgres --single -D $data postgres
fi
exec postgres -D $data -c listen_addresses='*' -c unix_socket_directories=/tmp
X
chmod 0755 "$dir/root/usr/local/bin/entrypoint"
tar -C "$dir/root" -cf "$dir/root.tar" .
rm -rf "$dir/root"
cat > "$dir/Containerfile" <<X
FROM $base
USER 0
ADD root.tar /
ENV PATH=$bin:/usr/bin:/usr/sbin
USER 10001
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["/usr/local/bin/entrypoint"]
CMD []
X
buildah build --quiet --format docker --layers=false --tag "$tag" --file "$dir/Containerfile" "$dir"
