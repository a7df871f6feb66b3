import { POOL_DEFAULTS } from '@cofferdam/polyclaw/pool-wish'
import { type Command, type CommandLine, type Context } from '../command.ts'
import { UsageError } from '../usage-error.ts'

interface Vendor {
  flags: readonly string[]
  run(context: Context, line: CommandLine): Promise<number>
}

const VENDORS: Readonly<Record<string, Vendor>> = {
  agentcore: {
    flags: ['tenant', 'all', 'dry-run', 'gc', 'remove'],
    run: async (...asked) => await (await import('../provision-agentcore.ts')).provisionAgentcore(...asked),
  },
  azure: {
    flags: ['location', 'resource-group', 'pool-name', 'dry-run', 'remove'],
    run: async (...asked) => await (await import('../provision-azure.ts')).provisionAzure(...asked),
  },
}
const COMMON = ['json', 'help']

export const command: Command = {
  usage:
    'agentcore [--tenant ID | --all] [--dry-run] [--gc] [--remove] | azure [--location REGION] [--resource-group NAME] [--pool-name NAME] [--dry-run] [--remove]',
  details:
    'agentcore: gives tenants code interpreters of their own at Amazon Bedrock AgentCore, and keeps the rows of DATABASE_URL and the\n' +
    'service in step: makes what is missing, forgets what the service knows no more. Exit status 1 when something is not ready.\n' +
    'Rights, roles and what to do about failures: libs/backends/agentcore/OPERATIONS.md.\n' +
    'azure: makes the one session pool of the fleet, grants the role on it, and keeps its endpoint in the sandbox configuration, as\n' +
    'POST /api/sandbox/provision does; --remove takes it away again. It stays disabled until that configuration enables it. Rights and\n' +
    'what to do about failures: libs/backends/azure/OPERATIONS.md.\n' +
    'Both may be repeated, and go on where they ended. Settings: provisioning.agentcore and provisioning.azure of\n' +
    'cofferdam.config.yaml; credentials: where the AWS SDK looks for them, and those that provisioning.azure names.',
  flags: {
    tenant: {
      type: 'string',
      value: 'ID',
      description: 'agentcore: also wants this tenant’s, and works on no other’s',
    },
    all: { type: 'boolean', description: 'agentcore: also wants those of every tenant whose sandbox is on' },
    'dry-run': { type: 'boolean', description: 'say what would be done; change nothing' },
    gc: {
      type: 'boolean',
      description:
        'agentcore: also delete interpreters with our prefix that no row names, an hour old or older',
    },
    remove: {
      type: 'boolean',
      description:
        'agentcore, with --tenant: delete its interpreters and its role; azure: delete the pool, and its group when ours and empty',
    },
    location: {
      type: 'string',
      value: 'REGION',
      description: `azure: where (default: ${POOL_DEFAULTS.location})`,
    },
    'resource-group': {
      type: 'string',
      value: 'NAME',
      description: `azure: its group, made when there is none (default: ${POOL_DEFAULTS.resource_group})`,
    },
    'pool-name': { type: 'string', value: 'NAME', description: 'azure: its name (default: made at random)' },
  },
  words: { min: 1, max: 1 },
  examples: [
    'cofferdam provision agentcore --tenant acme',
    'cofferdam provision agentcore --all --gc --dry-run',
    'cofferdam provision agentcore --tenant acme --remove',
    'cofferdam provision azure --dry-run',
    'cofferdam provision azure --location westeurope --resource-group sandboxes',
    'cofferdam provision azure --remove',
  ],
  async run(context, line) {
    const [name = ''] = line.words
    const vendor = Object.hasOwn(VENDORS, name) ? VENDORS[name] : undefined
    if (vendor === undefined)
      throw new UsageError(`cofferdam provision knows agentcore and azure, not ${JSON.stringify(name)}.`)
    const known = [...vendor.flags, ...COMMON]
    const other = Object.keys(line.flags).find(
      (flag) => line.flags[flag] !== undefined && !known.includes(flag),
    )
    if (other !== undefined) throw new UsageError(`cofferdam provision ${name} takes no --${other}.`)
    return await vendor.run(context, line)
  },
}
