import { expect, it } from 'vitest'
import { packageEnvironment } from './package-environment.ts'

it('the variables of every package manager, in all versions, name the registries', () => {
  const npm = 'http://packages.cofferdam.internal/npm/'
  const pypi = 'http://packages.cofferdam.internal/pypi/simple/'
  expect(packageEnvironment()).toMatchObject({
    PIP_INDEX_URL: pypi,
    UV_DEFAULT_INDEX: pypi,
    // npm of all versions, and pnpm up to 10
    npm_config_registry: npm,
    // pnpm from 11 on
    pnpm_config_registry: npm,
    // yarn 1
    YARN_REGISTRY: npm,
    // yarn 2 and later
    YARN_NPM_REGISTRY_SERVER: npm,
  })
})
