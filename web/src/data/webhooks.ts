/** Webhooks and their deliveries. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

const LIST_MAX = 200;
const DELIVERIES_SHOWN_MAX = 50;
const ALL = "/api/v1/organizations/{orgId}/webhooks";
const ONE = `${ALL}/{webhookId}` as const;

export function webhooksQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "webhooks"),
    queryFn: () => body(api.GET(ALL, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
  });
}

export function webhookQuery(org: string, webhookId: string) {
  return queryOptions({
    queryKey: key(org, "webhooks", webhookId),
    queryFn: () => data(api.GET(ONE, { params: { path: { orgId: org, webhookId } } })),
  });
}

/** Deliveries emit no events, so this polls. */
const POLL_MS = 5_000;

export function deliveriesQuery(org: string, webhookId: string) {
  return queryOptions({
    queryKey: key(org, "deliveries", webhookId),
    queryFn: () =>
      body(
        api.GET(`${ONE}/deliveries`, {
          params: { path: { orgId: org, webhookId }, query: { limit: DELIVERIES_SHOWN_MAX } },
        }),
      ),
    refetchInterval: POLL_MS,
  });
}

type Schemas = components["schemas"];

export function useCreateWebhook(org: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], (webhook: Schemas["WebhookNew"]) =>
    data(api.POST(ALL, { params: { path: { orgId: org } }, body: webhook })),
  );
}

export function useChangeWebhook(org: string, webhookId: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], (change: Schemas["WebhookPatch"]) =>
    data(api.PATCH(ONE, { params: { path: { orgId: org, webhookId } }, body: change })),
  );
}

export function useDeleteWebhook(org: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], (webhookId: string) =>
    data(api.DELETE(ONE, { params: { path: { orgId: org, webhookId } } })),
  );
}

export function usePing(org: string, webhookId: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], () =>
    data(api.POST(`${ONE}/ping`, { params: { path: { orgId: org, webhookId } } })),
  );
}

/** Rotates the signing secret. Only this response contains the new one. */
export function useRotateSecret(org: string, webhookId: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], () =>
    data(api.POST(`${ONE}/rotate`, { params: { path: { orgId: org, webhookId } } })),
  );
}

export function useRedeliver(org: string, webhookId: string) {
  return useOrgMutation(org, ["webhooks", "deliveries"], (deliveryId: string) =>
    data(
      api.POST(`${ONE}/deliveries/{deliveryId}/redeliver`, {
        params: { path: { orgId: org, webhookId, deliveryId } },
      }),
    ),
  );
}
