/**
 * Features of the service that the double lacks (API, e2b-dev/E2B spec/openapi.yml). It answers with an error
 * published for the call, never with "not found", which would tell clients that the sandbox is gone.
 */

/** Operations of a sandbox: the last part of the path. */
const ACTIONS = ['pause', 'resume', 'snapshots', 'fork', 'metrics', 'network', 'refreshes', 'logs']
/** Whole parts of the API. */
const PARTS = /^(\/v\d)?\/(snapshots|templates|volumes|secrets|teams|nodes|api-keys|sandboxes\/metrics)(\/|$)/

/** Why the double does not support a path; null if it does, or if the service does not have it either. */
export function unspoken(path: string, action: string | undefined): string | null {
  if (action !== undefined && ACTIONS.includes(action))
    return `this double does not speak /sandboxes/{sandboxID}/${action}`
  return PARTS.test(path) ? `this double does not speak ${path}` : null
}

/**
 * Names an option of a new sandbox that the double refuses because it does not support it. Null if there is
 * none.
 */
export function unkept(body: Record<string, unknown>): string | null {
  const asked = Object.entries({
    'a pause at the end of its time (autoPause)': body['autoPause'] === true,
    'volumes (volumeMounts)': Array.isArray(body['volumeMounts']) && body['volumeMounts'].length > 0,
    'an MCP gateway (mcp)': body['mcp'] !== undefined && body['mcp'] !== null,
    'identity tokens (iam)': body['iam'] !== undefined && body['iam'] !== null,
  })
  const [missing] = asked.find(([, isAsked]) => isAsked) ?? []
  return missing === undefined ? null : `this double has no sandboxes with ${missing}`
}
