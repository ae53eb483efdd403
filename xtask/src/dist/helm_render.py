"""Renders a Helm chart with the Helm library of the package helm-sdkpy: helm_render.py CHART RELEASE VALUES_JSON

The library has no `helm template`, only an installation. So the chart is installed into a double of the Kubernetes API,
which knows the kinds of Berth's chart, stores nothing, and answers every creation with what was sent. The rendered manifest
is printed. Problems that `helm lint` finds are printed to standard error, with exit code 1.
"""

import asyncio
import json
import os
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KINDS = {
    "v1": [("pods", "Pod"), ("services", "Service"), ("secrets", "Secret"), ("serviceaccounts", "ServiceAccount"),
           ("persistentvolumeclaims", "PersistentVolumeClaim")],
    "apps/v1": [("deployments", "Deployment")],
    "batch/v1": [("jobs", "Job")],
    "networking.k8s.io/v1": [("ingresses", "Ingress")],
    "policy/v1": [("poddisruptionbudgets", "PodDisruptionBudget")],
}


class KubernetesDouble(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, body, status=200):
        self.send(json.dumps(body).encode(), "application/json", status)

    def send(self, data, kind, status):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        path = self.path.split("?")[0].strip("/")
        if path == "version":
            return self.reply({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
        if path == "api":
            return self.reply({"kind": "APIVersions", "versions": ["v1"]})
        if path == "apis":
            groups = []
            for version in KINDS:
                if "/" in version:
                    name, number = version.split("/")
                    served = {"groupVersion": version, "version": number}
                    groups.append({"name": name, "versions": [served], "preferredVersion": served})
            return self.reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        version = path.removeprefix("apis/").removeprefix("api/")
        if version in KINDS:
            resources = [
                {"name": plural, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["create", "get", "list"]}
                for plural, kind in KINDS[version]
            ]
            return self.reply({"kind": "APIResourceList", "groupVersion": version, "resources": resources})
        if path.endswith("/secrets"):
            return self.reply({"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []})
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        return self.reply(missing, 404)

    def echo(self):
        # Helm stores its own record as protobuf.
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send(body, self.headers["Content-Type"], 201)

    do_POST = do_PUT = do_PATCH = echo


async def render(chart, release, values):
    import helm_sdkpy

    server = ThreadingHTTPServer(("127.0.0.1", 0), KubernetesDouble)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        config = os.path.join(home, "config")
        with open(config, "w") as file:
            cluster = {"name": "double", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
            context = {"name": "double", "context": {"cluster": "double", "user": "double"}}
            json.dump({"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context],
                       "users": [{"name": "double", "user": {}}], "current-context": "double"}, file)
        for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME"):
            os.environ[name] = home
        helm = helm_sdkpy.Configuration(namespace="berth", kubeconfig=config, kubecontext="double")
        linted = await helm_sdkpy.Lint(helm).run(chart)
        installed = await helm_sdkpy.Install(helm).run(release, chart, values=values, wait=False)
        return linted, installed


linted, installed = asyncio.run(render(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
print(installed["manifest"])
# Severity 1 is information, such as a missing icon.
problems = [message for message in linted.get("Messages") or [] if message["Severity"] > 1]
if problems:
    sys.exit(f"helm lint: {problems}")
