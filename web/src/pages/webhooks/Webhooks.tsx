import { Page } from "@/ui/Page";

export function Webhooks() {
  return <Page title="Webhooks">{null}</Page>;
}
