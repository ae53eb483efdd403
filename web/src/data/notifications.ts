import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

const LIST_MAX = 100;

export function fetchNotifications(org: string, unread: boolean) {
  return fetchBody(
    api.GET("/api/v1/organizations/{orgId}/notifications", {
      params: { path: { orgId: org }, query: { unread, limit: LIST_MAX } },
    }),
  );
}

export function notificationsQuery(org: string, unread: boolean) {
  return queryOptions({
    queryKey: resourceKey(org, "notifications", unread),
    queryFn: () => fetchNotifications(org, unread),
  });
}

export function useReadNotification(org: string) {
  return useOrgMutation(org, ["notifications"], (notificationId: string) =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/notifications/{notificationId}/read", {
        params: { path: { orgId: org, notificationId } },
      }),
    ),
  );
}

export function useReadAllNotifications(org: string) {
  return useOrgMutation(org, ["notifications"], () =>
    fetchData(
      api.POST("/api/v1/organizations/{orgId}/notifications/read-all", { params: { path: { orgId: org } } }),
    ),
  );
}
