//! Cases: git, containers, clusters, Terraform, databases, network, TLS, credentials.

use berth_analysis::Category::{
    Configuration, Container, Credentials, Database, Git, Kubernetes, Network, Terraform, Timeout, Tls,
};

use super::{AnalysisCase, held_out_case, open_case};

pub(super) const CASES: &[AnalysisCase] = &[
    open_case(
        "git: a repository that is not there",
        &["git"],
        Git,
        &["fatal: repository '/srv/none/shop.git' does not exist"],
        "git clone /srv/none/shop.git",
    ),
    held_out_case(
        "git: a push that others were faster than",
        &["git"],
        Git,
        &["[rejected]", "failed to push some refs"],
        r#"
git init -q --bare origin.git
git clone -q origin.git one; git clone -q origin.git two
cd one; git commit -q --allow-empty -m one; git push -q origin HEAD:main; cd ..
cd two; git commit -q --allow-empty -m two
echo "publishing the release notes"
git push origin HEAD:main
"#,
    ),
    open_case(
        "git: both sides changed a line",
        &["git"],
        Git,
        &["CONFLICT (content): Merge conflict in notes.txt"],
        r#"
git init -q -b main .
echo a > notes.txt; git add .; git commit -q -m a
git switch -q -c side; echo b > notes.txt; git commit -q -am b
git switch -q main; echo c > notes.txt; git commit -q -am c
git merge side
"#,
    ),
    held_out_case(
        "git: a branch that is not there",
        &["git"],
        Git,
        &["error: pathspec 'release-9' did not match"],
        r#"
git init -q -b main .
git commit -q --allow-empty -m first
git checkout release-9
"#,
    ),
    open_case(
        "git: not a repository",
        &["git"],
        Git,
        &["fatal: not a git repository"],
        "echo 'reading the version'; git describe --tags",
    ),
    held_out_case(
        "git: a directory of another user",
        &["git", "root"],
        Git,
        &["detected dubious ownership"],
        r#"
git init -q -b main shop
chown -R 65534 shop
cd shop
git log -1
"#,
    ),
    open_case(
        "docker: no daemon",
        &["docker"],
        Container,
        &["Cannot connect to the Docker daemon"],
        "export DOCKER_HOST=unix:///nonexistent/docker.sock; docker pull alpine:3.20",
    ),
    held_out_case(
        "docker: a name that is none",
        &["docker"],
        Container,
        &["invalid reference format"],
        "export DOCKER_HOST=unix:///nonexistent/docker.sock; echo tagging; docker run --rm Shop/API:1.0 true",
    ),
    open_case(
        "kubectl: a manifest that is no YAML",
        &["kubectl"],
        Configuration,
        &["error parsing app.yaml", "error converting YAML to JSON"],
        r#"
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shop\n   labels: {}\n' > app.yaml
kubectl create --dry-run=client -f app.yaml
"#,
    ),
    held_out_case(
        "kubectl: no cluster",
        &["kubectl"],
        Kubernetes,
        &["The connection to the server 127.0.0.1:1 was refused", "connection refused"],
        "echo 'rolling out shop-api'; kubectl --server=http://127.0.0.1:1 get deployments",
    ),
    open_case(
        "terraform: an argument that is not there",
        &["terraform"],
        Terraform,
        &["Error: Unsupported argument", "An argument named \"valu\" is not expected here"],
        r#"
printf 'output "region" {\n  valu = "eu-west-1"\n}\n' > main.tf
terraform init -no-color -input=false > /dev/null 2>&1 || true
terraform validate -no-color
"#,
    ),
    held_out_case(
        "terraform: a variable that is not declared",
        &["terraform"],
        Terraform,
        &["Reference to undeclared input variable", "An input variable with the name \"region\""],
        r#"
printf 'output "region" {\n  value = var.region\n}\n' > main.tf
terraform init -input=false
terraform validate
"#,
    ),
    open_case(
        "kubectl: a context that is not there",
        &["kubectl"],
        Kubernetes,
        &["context was not found for specified context: production"],
        "kubectl --context production get pods",
    ),
    held_out_case(
        "terraform: a module that is not there",
        &["terraform"],
        Terraform,
        &["Error: Unreadable module directory", "Unable to evaluate directory symlink", "The directory"],
        r#"
printf 'module "network" {\n  source = "./modules/network"\n}\n' > main.tf
terraform init -input=false -no-color
"#,
    ),
    open_case(
        "sqlite3: a table that is not there",
        &["sqlite3"],
        Database,
        &["no such table: orders"],
        "echo 'migrating'; sqlite3 -bail shop.db 'SELECT count(*) FROM orders;'",
    ),
    held_out_case(
        "psql: connection refused",
        &["psql"],
        Database,
        &["Connection refused"],
        "echo 'running migrations'; psql -h 127.0.0.1 -p 1 -U shop -d shop -c 'SELECT 1'",
    ),
    open_case(
        "sqlite3: twice the same key",
        &["sqlite3"],
        Database,
        &["UNIQUE constraint failed: users.mail"],
        r#"
sqlite3 -bail shop.db "CREATE TABLE users (mail TEXT UNIQUE); INSERT INTO users VALUES ('a'); INSERT INTO users VALUES ('a');"
"#,
    ),
    held_out_case(
        "psql: a table that is not there",
        &["psql", "root", "setpriv", "/usr/lib/postgresql/15/bin/initdb"],
        Database,
        &["relation \"orders\" does not exist"],
        r#"
bin=/usr/lib/postgresql/15/bin
mkdir data run; chmod 755 .; chown 65534 data run
as() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$PWD/run" "$@"; }
as $bin/initdb -D data -U shop --auth=trust -N > /dev/null
as $bin/pg_ctl -D data -w -l run/log -o "-c listen_addresses= -c unix_socket_directories=$PWD/run -c fsync=off" start > /dev/null
trap 'as $bin/pg_ctl -D data -m immediate stop > /dev/null' EXIT
psql -h "$PWD/run" -U shop -d postgres -v ON_ERROR_STOP=1 -c 'CREATE TABLE customers (id BIGINT)' -c 'ALTER TABLE orders ADD COLUMN note TEXT'
"#,
    ),
    open_case(
        "curl: an unknown host name",
        &["curl"],
        Network,
        &["Could not resolve host: shop.invalid"],
        "echo 'checking health'; curl -sS --noproxy '*' https://shop.invalid/health",
    ),
    held_out_case(
        "curl: connection refused",
        &["curl"],
        Network,
        &["Failed to connect to 127.0.0.1 port 1", "Connection refused", "Couldn't connect to server"],
        "curl --noproxy '*' -fsS http://127.0.0.1:1/health",
    ),
    open_case(
        "curl: a self-signed certificate",
        &["curl", "openssl"],
        Tls,
        &["SSL certificate problem: self-signed certificate", "self-signed certificate"],
        r#"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost > /dev/null 2>&1
openssl s_server -accept 127.0.0.1:18443 -key key.pem -cert cert.pem -www > /dev/null 2>&1 &
server=$!; trap 'kill $server' EXIT
for i in 1 2 3 4 5 6 7 8 9; do curl -ks --noproxy '*' https://localhost:18443 > /dev/null && break; sleep 0.2; done
curl -sS --noproxy '*' https://localhost:18443/
"#,
    ),
    held_out_case(
        "python: a self-signed certificate",
        &["python3", "openssl", "curl"],
        Tls,
        &["CERTIFICATE_VERIFY_FAILED"],
        r#"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost > /dev/null 2>&1
openssl s_server -accept 127.0.0.1:18444 -key key.pem -cert cert.pem -www > /dev/null 2>&1 &
server=$!; trap 'kill $server' EXIT
for i in 1 2 3 4 5 6 7 8 9; do curl -ks --noproxy '*' https://localhost:18444 > /dev/null && break; sleep 0.2; done
python3 -c 'import urllib.request; urllib.request.urlopen("https://localhost:18444/")'
"#,
    ),
    open_case(
        "curl: who are you?",
        &["curl", "python3"],
        Credentials,
        &["The requested URL returned error: 401"],
        r#"
cat > server.py <<'END'
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(401); self.send_header('Content-Length', '0'); self.end_headers()
    def log_message(self, *args): pass
HTTPServer(('127.0.0.1', 18401), Handler).serve_forever()
END
python3 server.py & server=$!; trap 'kill $server' EXIT
for i in 1 2 3 4 5 6 7 8 9; do curl -s --noproxy '*' http://127.0.0.1:18401 && break; sleep 0.3; done
curl -fsS --noproxy '*' http://127.0.0.1:18401/artifacts/site.tar
"#,
    ),
    held_out_case(
        "git: who are you?",
        &["git", "python3", "curl"],
        Credentials,
        &["could not read Username", "Authentication failed"],
        r#"
cat > server.py <<'END'
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401); self.send_header('WWW-Authenticate', 'Basic realm="git"')
        self.send_header('Content-Length', '0'); self.end_headers()
    def log_message(self, *args): pass
HTTPServer(('127.0.0.1', 18402), Handler).serve_forever()
END
python3 server.py & server=$!; trap 'kill $server' EXIT
for i in 1 2 3 4 5 6 7 8 9; do curl -s --noproxy '*' http://127.0.0.1:18402 && break; sleep 0.3; done
GIT_TERMINAL_PROMPT=0 git clone http://127.0.0.1:18402/shop.git
"#,
    ),
    open_case(
        "curl: no answer in time",
        &["curl", "python3"],
        Timeout,
        &["curl: (28) Operation timed out"],
        r#"
python3 -c 'import socket, time; s = socket.socket(); s.bind(("127.0.0.1", 18403)); s.listen(); time.sleep(6)' &
sleep 1
curl -sS --noproxy '*' --max-time 2 http://127.0.0.1:18403/health
"#,
    ),
    held_out_case(
        "openssl: a certificate of yesterday",
        &["openssl"],
        Tls,
        &["certificate has expired"],
        r#"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=shop.test > /dev/null 2>&1
openssl verify -attime $(($(date +%s) + 864000)) -CAfile cert.pem cert.pem
"#,
    ),
    open_case(
        "node: an unknown host name",
        &["node"],
        Network,
        &["getaddrinfo ENOTFOUND api.shop.invalid", "getaddrinfo EAI_AGAIN api.shop.invalid"],
        r#"
node -e 'require("https").get("https://api.shop.invalid/v1")'
"#,
    ),
    held_out_case(
        "wget: a page that is not there",
        &["wget", "python3", "curl"],
        Network,
        &["ERROR 404"],
        r#"
mkdir www; python3 -m http.server --bind 127.0.0.1 --directory www 18404 > /dev/null 2>&1 & server=$!; trap 'kill $server' EXIT
for i in 1 2 3 4 5 6 7 8 9; do curl -s --noproxy '*' http://127.0.0.1:18404 > /dev/null && break; sleep 0.3; done
wget --no-proxy http://127.0.0.1:18404/releases/shop-1.4.2.tar.gz
"#,
    ),
    open_case(
        "ssh: connection refused",
        &["ssh"],
        Network,
        &["connect to host 127.0.0.1 port 1: Connection refused"],
        "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -p 1 deploy@127.0.0.1 true",
    ),
    held_out_case(
        "python: a port in use",
        &["python3"],
        Network,
        &["Address already in use"],
        r#"
python3 -c 'import socket, time; s = socket.socket(); s.bind(("127.0.0.1", 18405)); s.listen(); time.sleep(6)' &
sleep 1
echo "starting the preview"
python3 -m http.server --bind 127.0.0.1 18405
"#,
    ),
];
