/**
 * Names that are guarded in every folder. `*` matches any characters. They are not configurable, because a
 * setting could leak a secret, or let a sandbox control programs outside.
 */

/** Never copied in or out. */
export const NEVER_NAMES: readonly string[] = [
  // Files and folders where tools keep credentials, or caches of one machine.
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
  // Usual names of keys and tokens.
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

/**
 * Copied into sandboxes but not out, unless a rule says otherwise, because programs outside of the sandbox
 * obey these files.
 */
export const CONTROL_NAMES: readonly string[] = [
  // Agent platforms: the servers that an agent starts, its plugins, its schedule and its skills.
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
