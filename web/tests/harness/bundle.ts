/** Serves the dashboard's files from a directory instead of the binary, so that a change needs no build of the binary. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { BrowserContext } from "@playwright/test";

const PROGRAM_PATHS = /^\/(?:api|docs|hooks|healthz|readyz|\.well-known)(?:\/|$)/;

export async function serveBundle(context: BrowserContext, directory: string) {
  await context.route(
    url => url.hostname.endsWith("localhost") && !PROGRAM_PATHS.test(url.pathname),
    async route => {
      const url = new URL(route.request().url());
      const file = join(directory, url.pathname);
      if (url.pathname !== "/" && existsSync(file)) return route.fulfill({ path: file });
      if (route.request().resourceType() !== "document") return route.continue();
      // The status and the headers are the server's, with its content security policy. Programs cannot resolve its host.
      const headers = { ...route.request().headers(), host: url.host, "sec-fetch-mode": "navigate" };
      url.hostname = "127.0.0.1";
      const response = await route.fetch({ url: url.href, headers, maxRedirects: 0 });
      const isPage = response.headers()["content-type"]?.startsWith("text/html");
      return route.fulfill(isPage ? { response, path: join(directory, "index.html") } : { response });
    },
  );
}
