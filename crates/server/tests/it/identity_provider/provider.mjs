// An OpenID Connect provider for tests: oauth2-mock-server, with ID tokens and refresh rules that a test chooses.
//
// node provider.mjs <directory of node_modules> <port>. POST /control changes the behaviour, GET /control returns what
// was requested.

import { createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [npm, port] = process.argv.slice(2);
const library = join(npm, "node_modules/oauth2-mock-server/dist/index.mjs");
const { OAuth2Server } = await import(pathToFileURL(library));

const provider = new OAuth2Server();
let key = await provider.issuer.keys.generate("RS256");
provider.issuer.url = `http://127.0.0.1:${port}`;

const behaviour = {
  claims: { sub: "u-1", email: "grace@acme.test", email_verified: true, name: "Grace Hopper" },
  // How the ID token is wrong: see `mintToken`.
  fault: null,
  // Seconds relative to now.
  expires: 300,
  issued: 0,
  authenticated: 0,
  // "ok", "refused", "broken" or "without_id_token".
  refresh: "ok",
  issuesRefreshTokens: true,
  isDown: false,
  secret: "s3cret",
};
const seen = { authorize: null, endSession: null, refreshes: 0, codes: 0 };
const liveRefreshTokens = new Set();

const encode = value => Buffer.from(JSON.stringify(value)).toString("base64url");
const otherKey = () => generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;

function mintToken({ aud, nonce }) {
  const now = Math.floor(Date.now() / 1000);
  const fault = behaviour.fault;
  const header = { alg: "RS256", typ: "JWT", kid: key.kid };
  const payload = { iss: provider.issuer.url, aud, iat: now + behaviour.issued, exp: now + behaviour.expires };
  if (nonce !== undefined) payload.nonce = nonce;
  if (behaviour.authenticated !== null) payload.auth_time = now + behaviour.authenticated;
  Object.assign(payload, behaviour.claims);
  if (fault === "issuer") payload.iss = "https://evil.test";
  if (fault === "audience") payload.aud = "another-client";
  if (fault === "extra_audience") payload.aud = [aud, "another-client"];
  if (fault === "nonce") payload.nonce = "of-another-login";
  if (fault === "no_nonce") delete payload.nonce;
  if (fault === "not_before") payload.nbf = now + 120;
  if (fault === "unknown_key") header.kid = "unknown";
  if (fault === "none") header.alg = "none";
  if (fault === "hs256_public_key" || fault === "hs256_client_secret") header.alg = "HS256";
  const content = `${encode(header)}.${encode(payload)}`;
  const own = createPrivateKey({ key, format: "jwk" });
  let signature;
  if (fault === "none") signature = "";
  else if (fault === "hs256_public_key") {
    const pem = createPublicKey(own).export({ type: "spki", format: "pem" });
    signature = createHmac("sha256", pem).update(content).digest("base64url");
  } else if (fault === "hs256_client_secret") {
    signature = createHmac("sha256", behaviour.secret).update(content).digest("base64url");
  } else {
    const signer = fault === "wrong_key" || fault === "unknown_key" ? otherKey() : own;
    signature = sign("RSA-SHA256", Buffer.from(content), signer).toString("base64url");
  }
  if (fault === "changed_payload") {
    const changed = encode({ ...payload, sub: "u-2" });
    return `${encode(header)}.${changed}.${signature}`;
  }
  return `${content}.${signature}`;
}

function hasSecret(request) {
  const wanted = Buffer.from(`berth:${behaviour.secret}`).toString("base64");
  return request.headers.authorization === `Basic ${wanted}`;
}

provider.service.on("beforeResponse", (response, request) => {
  const refuse = error => Object.assign(response, { statusCode: 400, body: { error } });
  const isRefresh = request.body.grant_type === "refresh_token";
  if (!hasSecret(request)) return refuse("invalid_client");
  if (isRefresh) {
    seen.refreshes += 1;
    if (behaviour.refresh === "refused") return refuse("invalid_grant");
    if (behaviour.refresh === "broken") return Object.assign(response, { statusCode: 500, body: {} });
    if (!liveRefreshTokens.delete(request.body.refresh_token)) return refuse("invalid_grant");
  } else {
    seen.codes += 1;
  }
  const made = JSON.parse(Buffer.from(response.body.id_token.split(".")[1], "base64url"));
  response.body.id_token = mintToken({ aud: "berth", nonce: made.nonce });
  if (isRefresh && behaviour.refresh === "without_id_token") delete response.body.id_token;
  if (behaviour.issuesRefreshTokens) liveRefreshTokens.add(response.body.refresh_token);
  else delete response.body.refresh_token;
});
provider.service.on("beforeUserinfo", response => {
  response.body = { ...behaviour.claims };
});
provider.service.on("beforeAuthorizeRedirect", (_redirect, request) => {
  seen.authorize = request.query;
});
provider.service.on("beforePostLogoutRedirect", (_redirect, request) => {
  seen.endSession = request.query;
});

async function control(request, response) {
  let text = "";
  for await (const part of request) text += part;
  if (request.method === "POST") {
    const { rotateKeys, ...changes } = JSON.parse(text);
    if (rotateKeys) key = await provider.issuer.keys.generate("RS256");
    Object.assign(behaviour, changes);
  }
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(seen));
}

createServer((request, response) => {
  if (request.url === "/control") return control(request, response);
  if (behaviour.isDown) return request.socket.destroy();
  return provider.service.requestHandler(request, response);
}).listen(Number(port), "127.0.0.1");
