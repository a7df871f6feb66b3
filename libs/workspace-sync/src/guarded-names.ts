/**
 * Names that the rules guard in every folder; `*` stands for any characters. Not settings: who may write settings could
 * otherwise take a secret out, or have a program outside of the sandbox steered from inside.
 */

/** Neither packed nor taken back. */
export const NEVER_NAMES: readonly string[] = [
  // Folders where tools keep credentials, or caches of one machine.
  '.aws',
  '.azure',
  '.cache',
  '.config',
  '.IdentityService',
  '.net',
  '.npm',
  '.pki',
  '.docker',
  '.env',
  '.env.*',
  '.git-credentials',
  '.gnupg',
  '.kube',
  '.netrc',
  '_netrc',
  '.npmrc',
  '.password-store',
  '.pgpass',
  '.pypirc',
  '.ssh',
  '.vault-token',
  // Keys and tokens by their usual names.
  'id_dsa*',
  'id_ecdsa*',
  'id_ed25519*',
  'id_rsa*',
  '*.key',
  '*.keystore',
  '*.p12',
  '*.pem',
  '*.pfx',
  'credentials',
  'credentials.json',
  'secrets.json',
  'secrets.yaml',
  'secrets.yml',
  'token',
  'token.json',
  'tokens.json',
  '*_token',
  '*.token',
]

/** Into sandboxes only, unless a rule says otherwise: programs outside of the sandbox act on them. */
export const CONTROL_NAMES: readonly string[] = [
  // Agent platforms: the servers an agent starts, the plugins it loads, its schedule and its skills.
  '.copilot',
  'mcp_servers.json',
  'plugins.json',
  'scheduler.json',
  'skills',
  // Hooks, tasks and workflows of the usual tools.
  '.git',
  '.github',
  '.gitmodules',
  '.husky',
  '.vscode',
]
