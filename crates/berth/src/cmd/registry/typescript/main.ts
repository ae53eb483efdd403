// Entry point, started for every call. Lists the steps of this registry.

import { serve } from "./protocol.js";
import { greet } from "./steps/greet.js";
import { rollout } from "./steps/rollout.js";
import { wipe } from "./steps/wipe.js";

await serve([greet, rollout, wipe]);
