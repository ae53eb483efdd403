import { Page } from "@/ui/Page";

export function WebhookPage() {
  return <Page title="Webhook">{null}</Page>;
}
