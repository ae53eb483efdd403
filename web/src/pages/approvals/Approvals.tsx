import { Page } from "@/ui/Page";

export function Approvals() {
  return <Page title="Approvals">{null}</Page>;
}
