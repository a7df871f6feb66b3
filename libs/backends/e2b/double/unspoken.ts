/**
 * What the service has and the double has not (API, e2b-dev/E2B spec/openapi.yml). It answers with an error
 * that is published for the call, never with "not found", which clients take for a sandbox that is gone.
 */

/** Operations of a sandbox: the last part of the path. */
const ACTIONS = ['pause', 'resume', 'snapshots', 'fork', 'metrics', 'network', 'refreshes', 'logs']
/** Whole parts of the API. */
const PARTS = /^(\/v\d)?\/(snapshots|templates|volumes|secrets|teams|nodes|api-keys|sandboxes\/metrics)(\/|$)/

/**
 * Why the double does not do what a path asks for; null for what it does, and for what the service has not.
 */
export function unspoken(path: string, action: string | undefined): string | null {
  if (action !== undefined && ACTIONS.includes(action))
    return `this double does not speak /sandboxes/{sandboxID}/${action}`
  return PARTS.test(path) ? `this double does not speak ${path}` : null
}

/**
 * What a new sandbox is asked to have and cannot; null for nothing. Ignored, it would be a promise not kept.
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
