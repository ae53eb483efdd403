import { redirect } from "@tanstack/react-router";
import { toProblem } from "@/api/problem";
import type { Me } from "@/api/types";
import { meQuery } from "./me";
import { queryClient } from "./queryClient";

/** Loads the current user. Without a login, redirects to the login page, which leads back to the requested page. */
export async function requireLogin(href: string): Promise<Me> {
  try {
    return await queryClient.ensureQueryData(meQuery);
  } catch (error) {
    if (toProblem(error).status !== 401) throw error;
    throw redirect({ to: "/sign-in", search: href === "/" ? {} : { next: href } });
  }
}
