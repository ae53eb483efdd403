import { Page } from "@/ui/Page";

export function Board() {
  return <Page title="Shared environments">{null}</Page>;
}
