// The Node functions used here, so that only the compiler has to be installed. If you need more, remove this file and
// install @types/node.

declare module "node:fs" {
  export function appendFileSync(path: string, text: string): void;
  export function writeFileSync(path: string, text: string): void;
}
declare module "node:path" {
  export function join(...parts: string[]): string;
}
declare module "node:process" {
  export const argv: string[];
  export const env: Record<string, string | undefined>;
}
