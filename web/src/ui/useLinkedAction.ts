import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

/** Calls `open` with the action in the URL (`?do=claim`) and removes it, so that a reload does not repeat it. */
export function useLinkedAction<Action extends string>(
  actions: readonly Action[],
  open: (action: Action) => void,
) {
  const wanted = useSearch({ strict: false, select: search => search.do });
  const navigate = useNavigate();
  const current = useRef({ actions, open });
  current.current = { actions, open };
  useEffect(() => {
    const { actions, open } = current.current;
    const action = actions.find(each => each === wanted);
    if (action === undefined) return;
    open(action);
    void navigate({ to: ".", search: now => ({ ...now, do: undefined }), replace: true, resetScroll: false });
  }, [wanted, navigate]);
}
