import { Page } from "@/ui/Page";

export function Secrets() {
  return <Page title="Secrets">{null}</Page>;
}
