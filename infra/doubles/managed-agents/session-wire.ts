/** A session as the API shows it (`BetaManagedAgentsSession`). Costs, budgets and usage are not emulated. */
import type { BetaManagedAgentsSession } from '@anthropic-ai/sdk/resources/beta/sessions/sessions'
import type { Session } from './session.ts'

export function sessionOnWire(session: Session): BetaManagedAgentsSession {
  const { agentId, environmentId, metadata, resources, skills, title } = session.profile
  const last = session.events.at(-1)
  const lastAt = last !== undefined && 'processed_at' in last ? last.processed_at : null
  return {
    id: session.id,
    type: 'session',
    agent: {
      type: 'agent',
      id: agentId,
      version: 1,
      name: 'Scripted agent',
      description: null,
      system: null,
      execution_identity: { type: 'service_account' },
      mcp_servers: [],
      model: { id: 'claude-opus-4-8' },
      multiagent: null,
      skills,
      tools: [
        {
          type: 'agent_toolset_20260401',
          configs: [],
          default_config: { enabled: true, permission_policy: { type: 'always_allow' } },
        },
      ],
    },
    archived_at: session.archived_at,
    budget: null,
    created_at: session.created_at,
    deployment_id: null,
    environment_id: environmentId,
    metadata,
    outcome_evaluations: [],
    resources,
    stats: {},
    status: session.status,
    title,
    updated_at: lastAt ?? session.created_at,
    usage: {},
    vault_ids: [],
  }
}
