/** Webhooks and their deliveries. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 200;
const DELIVERIES_SHOWN_MAX = 50;
const WEBHOOKS_PATH = "/api/v1/organizations/{orgId}/webhooks";
const WEBHOOK_PATH = `${WEBHOOKS_PATH}/{webhookId}` as const;

export function webhooksQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "webhooks"),
    queryFn: () =>
      fetchBody(api.GET(WEBHOOKS_PATH, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
  });
}

export function webhookQuery(org: string, webhookId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "webhooks", webhookId),
    queryFn: () => fetchData(api.GET(WEBHOOK_PATH, { params: { path: { orgId: org, webhookId } } })),
  });
}

/** Deliveries emit no events, so this polls. */
const POLL_MS = 5_000;

export function deliveriesQuery(org: string, webhookId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "deliveries", webhookId),
    queryFn: () =>
      fetchBody(
        api.GET(`${WEBHOOK_PATH}/deliveries`, {
          params: { path: { orgId: org, webhookId }, query: { limit: DELIVERIES_SHOWN_MAX } },
        }),
      ),
    refetchInterval: POLL_MS,
  });
}

type Schemas = components["schemas"];

export function useCreateWebhook(org: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], (webhook: Schemas["WebhookNew"]) =>
    fetchData(api.POST(WEBHOOKS_PATH, { params: { path: { orgId: org } }, body: webhook })),
  );
}

export function useChangeWebhook(org: string, webhookId: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], (change: Schemas["WebhookPatch"]) =>
    fetchData(api.PATCH(WEBHOOK_PATH, { params: { path: { orgId: org, webhookId } }, body: change })),
  );
}

export function useDeleteWebhook(org: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], (webhookId: string) =>
    fetchData(api.DELETE(WEBHOOK_PATH, { params: { path: { orgId: org, webhookId } } })),
  );
}

export function usePingWebhook(org: string, webhookId: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], () =>
    fetchData(api.POST(`${WEBHOOK_PATH}/ping`, { params: { path: { orgId: org, webhookId } } })),
  );
}

/** Rotates the signing secret. Only this response contains the new one. */
export function useRotateWebhookSecret(org: string, webhookId: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], () =>
    fetchData(api.POST(`${WEBHOOK_PATH}/rotate`, { params: { path: { orgId: org, webhookId } } })),
  );
}

export function useRedeliverWebhook(org: string, webhookId: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], (deliveryId: string) =>
    fetchData(
      api.POST(`${WEBHOOK_PATH}/deliveries/{deliveryId}/redeliver`, {
        params: { path: { orgId: org, webhookId, deliveryId } },
      }),
    ),
  );
}
