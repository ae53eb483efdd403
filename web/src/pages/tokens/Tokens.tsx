import { Page } from "@/ui/Page";

export function Tokens() {
  return <Page title="API Tokens">{null}</Page>;
}
