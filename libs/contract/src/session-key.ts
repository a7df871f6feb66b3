/** Keys of sessions: names that callers choose, and the keys of the sessions of runs. */
import { z } from 'zod'

/** Names have no colon (nameSchema), so no caller can choose such a key, and no two runs share one. */
const OF_A_RUN = 'run:'

export const sessionKeySchema = z
  .string()
  .regex(
    /^(run:[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}:)?[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$/,
    'expected 1-128 letters, digits or _ . @ -, starting with a letter or digit, or run:AGENT_ID:RUN_ID',
  )

/**
 * The key of a run's session. It contains the agent, because agents of one run may have different templates,
 * and files of the stricter one must not reach the other.
 */
export const runSessionKey = (agentId: string, runId: string): string => `${OF_A_RUN}${agentId}:${runId}`

export const isRunSessionKey = (key: string): boolean => key.startsWith(OF_A_RUN)
