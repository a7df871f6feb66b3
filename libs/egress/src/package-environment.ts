/** The variables that point package managers to the package proxy. */
import { PACKAGE_HOST } from './packages/create-package-proxy.ts'
import type { Registry } from './packages/package-rules.ts'

/** For executions that may install from these registries (default: all). The guest sets proxy variables. */
export function packageEnvironment(
  registries: readonly Registry[] = ['pypi', 'npm'],
): Record<string, string> {
  return Object.assign({}, ...registries.map((registry) => VARIABLES[registry])) as Record<string, string>
}

const npm = `http://${PACKAGE_HOST}/npm/`
const pypi = `http://${PACKAGE_HOST}/pypi/simple/`

const VARIABLES: Readonly<Record<Registry, Readonly<Record<string, string>>>> = {
  pypi: {
    PIP_INDEX_URL: pypi,
    PIP_TRUSTED_HOST: PACKAGE_HOST,
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    PIP_NO_INPUT: '1',
    // A refusal is final, and five retries with growing pauses would use up the deadline.
    PIP_RETRIES: '1',
    // Debian marks the host's interpreter, which a jail uses, as managed by the system. pip would refuse to
    // install. The interpreter's folders are read-only, so this is safe.
    PIP_BREAK_SYSTEM_PACKAGES: '1',
    UV_DEFAULT_INDEX: pypi,
    UV_INSECURE_HOST: PACKAGE_HOST,
  },
  npm: {
    // pnpm reads npm's variables up to version 10, and its own variables from version 11 on.
    npm_config_registry: npm,
    pnpm_config_registry: npm,
    // npm rewrites the addresses of lock files to the registry above, whichever registry they name.
    npm_config_replace_registry_host: 'always',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    npm_config_update_notifier: 'false',
    pnpm_config_update_notifier: 'false',
    npm_config_fetch_retries: '1',
    pnpm_config_fetch_retries: '1',
    // The default is ten seconds before the one retry.
    npm_config_fetch_retry_mintimeout: '500',
    pnpm_config_fetch_retry_mintimeout: '500',
    YARN_REGISTRY: npm,
    YARN_NPM_REGISTRY_SERVER: npm,
    YARN_UNSAFE_HTTP_WHITELIST: PACKAGE_HOST,
    YARN_ENABLE_TELEMETRY: '0',
  },
}
