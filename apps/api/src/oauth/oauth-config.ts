/** The variables of the OAuth resource server, which is off until COFFERDAM_OAUTH_ISSUER names an issuer. */
import { commaList, configProblems, type ConfigOf } from '@cofferdam/config'
import { nameSchema } from '@cofferdam/contract'
import { z } from 'zod'

/** Only algorithms with a public key. With a shared secret, this server could make tokens itself. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/** Whether nobody between two hosts can read or change what goes to `url`. */
const isPrivate = ({ protocol, hostname }: URL): boolean => protocol === 'https:' || LOOPBACK.test(hostname)

const safeUrl = z
  .url({ protocol: /^https?$/, error: 'expected a URL that begins with https://' })
  .refine((text) => isPrivate(new URL(text)), 'expected https, or http on a loopback address')

/** `org_1=acme,org_2=globex`. A value of the claim may contain `=` and `:`, a tenant may not. */
const tenantMap = commaList.transform((pairs, context) => {
  const entries = pairs.map((pair) => {
    const at = pair.lastIndexOf('=')
    return [pair.slice(0, Math.max(0, at)), pair.slice(at + 1)] as const
  })
  const isGood = entries.every(([value, tenant]) => value !== '' && nameSchema.safeParse(tenant).success)
  if (isGood && entries.length > 0 && new Map(entries).size === entries.length) return new Map(entries)
  context.addIssue('expected value=tenant,… with each value once')
  return z.NEVER
})

const claimName = z.string().max(200)

export const OAUTH_FIELDS = {
  oauthIssuer: {
    variable: 'COFFERDAM_OAUTH_ISSUER',
    schema: safeUrl
      .refine((text) => !/[?#]/.test(text), 'expected a URL without a query and a fragment')
      .optional(),
    description:
      'Issuer of the OAuth access tokens that /mcp accepts besides API keys, exactly as in the claim iss; ' +
      'needs COFFERDAM_PUBLIC_URL; unset: API keys only.',
    example: 'https://login.example.com',
  },
  oauthAudience: {
    variable: 'COFFERDAM_OAUTH_AUDIENCE',
    schema: z.string().max(500).optional(),
    description:
      'What the claim aud must contain; unset: the address of /mcp, COFFERDAM_PUBLIC_URL with /mcp at its end.',
    example: 'https://cofferdam.example.com/mcp',
  },
  oauthJwksUrl: {
    variable: 'COFFERDAM_OAUTH_JWKS_URL',
    schema: safeUrl.optional(),
    description:
      'Address of the keys of the issuer. Unset: the address that its metadata (RFC 8414, OpenID) names.',
    example: 'https://login.example.com/keys',
  },
  oauthAlgorithms: {
    variable: 'COFFERDAM_OAUTH_ALGORITHMS',
    schema: commaList
      .refine(
        (names) => names.length > 0 && names.every((name) => ALGORITHMS.includes(name)),
        `expected some of ${ALGORITHMS.join(', ')}`,
      )
      .default(['RS256', 'PS256', 'ES256', 'EdDSA']),
    description:
      'Signature algorithms of tokens (default: RS256, PS256, ES256 and EdDSA); only those with a public key.',
    example: 'RS256',
  },
  oauthTenantClaim: {
    variable: 'COFFERDAM_OAUTH_TENANT_CLAIM',
    schema: claimName.default('tenant_id'),
    description: 'Claim that names the tenant. Users must not be able to choose its value.',
    example: 'org_id',
  },
  oauthTenants: {
    variable: 'COFFERDAM_OAUTH_TENANTS',
    schema: tenantMap.optional(),
    description:
      'Values of the claim that COFFERDAM_OAUTH_TENANT_CLAIM names, each with its tenant. Tokens with ' +
      'other values are refused. Unset: the value is the ID of the tenant.',
    example: 'org_8fG2=acme,org_1xK9=globex',
  },
  oauthAgentClaim: {
    variable: 'COFFERDAM_OAUTH_AGENT_CLAIM',
    schema: claimName.optional(),
    description:
      'Claim that names the agent, which the client then cannot choose; unset: the client names it, as with ' +
      'an API key.',
    example: 'client_id',
  },
} as const

/** What the resource server needs to know. */
export interface OAuthSettings {
  /** Compared with the claim `iss` character by character. */
  issuer: string
  /** The address of /mcp for clients: the resource of RFC 8707 and RFC 9728. */
  resource: string
  audience: string
  /** Undefined: the URL is read from the issuer's metadata. */
  jwksUrl: string | undefined
  algorithms: string[]
  tenantClaim: string
  /** The tenant for each value of the tenant claim. Undefined: each value is itself the ID of a tenant. */
  tenants: ReadonlyMap<string, string> | undefined
  /** Undefined: tokens name no agent. */
  agentClaim: string | undefined
}

/**
 * The settings in `config`. Undefined without an issuer. Throws `config_invalid` when other variables are
 * missing, or have no effect because there is no issuer.
 */
export function oauthSettings(
  config: ConfigOf<typeof OAUTH_FIELDS> & { publicUrl?: string | undefined },
): OAuthSettings | undefined {
  const { oauthIssuer: issuer, publicUrl } = config
  if (issuer === undefined) {
    const names = ['oauthAudience', 'oauthJwksUrl', 'oauthTenants', 'oauthAgentClaim'] as const
    const idle = names.filter((name) => config[name] !== undefined)
    if (idle.length === 0) return undefined
    throw configProblems(
      idle.map((name) => `${OAUTH_FIELDS[name].variable}: has no effect without COFFERDAM_OAUTH_ISSUER`),
    )
  }
  if (publicUrl === undefined || !isPrivate(new URL(publicUrl)))
    throw configProblems([
      'COFFERDAM_PUBLIC_URL: COFFERDAM_OAUTH_ISSUER needs it, as https or with a loopback address (example: ' +
        'https://cofferdam.example.com)',
    ])
  const { origin, pathname } = new URL(publicUrl)
  const resource = `${origin}${pathname.replace(/\/+$/, '')}/mcp`
  return {
    issuer,
    resource,
    audience: config.oauthAudience ?? resource,
    jwksUrl: config.oauthJwksUrl,
    algorithms: config.oauthAlgorithms,
    tenantClaim: config.oauthTenantClaim,
    tenants: config.oauthTenants,
    agentClaim: config.oauthAgentClaim,
  }
}
