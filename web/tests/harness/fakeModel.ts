/** Fake model provider with a chat completions API that always returns the given response. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export class FakeModel {
  readonly requests: string[] = [];
  readonly #server: Server;

  private constructor(result: object) {
    const content = JSON.stringify(result);
    this.#server = createServer(async (request, response) => {
      let body = "";
      for await (const part of request) body += part;
      this.requests.push(body);
      response.setHeader("Content-Type", "application/json");
      response.end(
        JSON.stringify({
          choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }],
          usage: { prompt_tokens: 120, completion_tokens: 30, total_tokens: 150 },
        }),
      );
    });
  }

  static async start(result: object): Promise<FakeModel> {
    const model = new FakeModel(result);
    await new Promise<void>(resolve => model.#server.listen(0, "127.0.0.1", resolve));
    return model;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  stop() {
    this.#server.close();
  }
}
