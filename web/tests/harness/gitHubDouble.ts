/** A double of GitHub: the pages and requests that create and install a GitHub App. */
import { createVerify, generateKeyPairSync } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const CODE = "0123456789abcdef0123456789abcdef01234567";
const SLUG = "berth-acme";

type Manifest = { name: string; redirect_url: string; setup_url: string; hook_attributes: { url: string } };

export class GitHubDouble {
  manifest?: Manifest;
  #isInstalled = false;
  readonly #keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
  readonly #server = createServer((request, response) => void this.#respond(request, response));

  static async start(): Promise<GitHubDouble> {
    const double = new GitHubDouble();
    await new Promise<void>(resolve => double.#server.listen(0, "127.0.0.1", resolve));
    return double;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop() {
    this.#server.close();
  }

  async #respond(request: IncomingMessage, response: ServerResponse) {
    let body = "";
    for await (const part of request) body += part;
    const { pathname, searchParams } = new URL(request.url ?? "/", this.url);
    switch (`${request.method} ${pathname}`) {
      case "POST /organizations/acme/settings/apps/new": {
        this.manifest = JSON.parse(new URLSearchParams(body).get("manifest") ?? "{}") as Manifest;
        const next = `${this.manifest.redirect_url}?code=${CODE}&state=${searchParams.get("state")}`;
        return sendPage(response, "Register new GitHub App", next, "Create GitHub App");
      }
      case `GET /github-apps/${SLUG}/installations/new`: {
        return sendPage(response, "Install GitHub App", "/install", "Install");
      }
      case "GET /install": {
        this.#isInstalled = true;
        const next = `${this.manifest?.setup_url}?installation_id=99&setup_action=install`;
        return response.writeHead(302, { Location: next }).end();
      }
      case `POST /api/app-manifests/${CODE}/conversions`: {
        const pem = this.#keys.privateKey.export({ type: "pkcs1", format: "pem" });
        const app = { id: 4711, slug: SLUG, name: this.manifest?.name, pem, webhook_secret: "secret" };
        return sendJson(response, 201, app);
      }
      case "GET /api/repos/acme/shop/installation": {
        if (!this.#isSigned(request)) return sendJson(response, 401, {});
        return this.#isInstalled ? sendJson(response, 200, { id: 99 }) : sendJson(response, 404, {});
      }
      default:
        return sendJson(response, 404, {});
    }
  }

  /** Whether the request has a token that the app signed. */
  #isSigned(request: IncomingMessage): boolean {
    const [header, claims, signature] = (request.headers.authorization ?? "")
      .replace("Bearer ", "")
      .split(".");
    const verifier = createVerify("RSA-SHA256").update(`${header}.${claims}`);
    return verifier.verify(this.#keys.publicKey, signature ?? "", "base64url");
  }
}

function sendPage(response: ServerResponse, title: string, next: string, action: string) {
  response.setHeader("Content-Type", "text/html");
  response.end(`<!doctype html><title>${title}</title><h1>${title}</h1><a href="${next}">${action}</a>`);
}

function sendJson(response: ServerResponse, status: number, body: object) {
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
}
