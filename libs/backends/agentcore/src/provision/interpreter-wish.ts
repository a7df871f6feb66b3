/** The configured properties of an interpreter, and how an existing one differs from them. */
import type { Environment } from '@cofferdam/contract'
import type { WantedInterpreter } from './interpreter-rows.ts'
import type { AgentcoreProvisionConfig } from './config.ts'
import type { InterpreterFacts, InterpreterWish } from './control-plane.ts'
import { creationToken, interpreterName } from './interpreter-name.ts'

/** Properties to create a wanted interpreter with. */
export function wishOf(
  config: AgentcoreProvisionConfig,
  row: WantedInterpreter,
  roleArn: string | null,
): InterpreterWish {
  const name = interpreterName(config.prefix, row.tenant_id, row.environment)
  const settings = { network: networkOf(config, row.environment), executionRoleArn: roleArn }
  return { name, ...settings, clientToken: creationToken(name, row.generation, settings) }
}

function networkOf(config: AgentcoreProvisionConfig, environment: Environment): InterpreterWish['network'] {
  if (environment === 'default-public') return { mode: 'PUBLIC' }
  const { internal_network: inner } = config
  if (inner === 'sandbox') return { mode: 'SANDBOX' }
  return { mode: 'VPC', subnets: inner.subnets, securityGroups: inner.security_groups }
}

/** Describes the differences. An interpreter cannot be changed, only created anew. */
export function differs(
  config: AgentcoreProvisionConfig,
  row: WantedInterpreter,
  facts: InterpreterFacts,
  roleArn?: string | null,
): string | null {
  const { mode } = networkOf(config, row.environment)
  const again = `remove the tenant's interpreters (--remove) and provision again`
  if (facts.networkMode !== mode)
    return `its network mode is ${facts.networkMode}, configured is ${mode}: ${again}`
  const wanted = roleArn ?? (config.execution_role.startsWith('arn:') ? config.execution_role : null)
  const isRoleKnown = roleArn !== undefined || config.execution_role !== 'per-tenant'
  if (isRoleKnown && facts.executionRoleArn !== wanted)
    return `its role is ${facts.executionRoleArn ?? 'none'}, configured is ${wanted ?? 'none'}: ${again}`
  return null
}
