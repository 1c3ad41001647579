--- The server's entry for |vim.lsp.config|. Neovim reads this file when the server is enabled;
--- `vim.lsp.config('trainwreck', { ... })` in a user's configuration is laid over it.
local settings = require('trainwreck.settings')

return {
  cmd = settings.cmd(),
  -- The server says nothing about a text or JSON file that is neither a log nor a model config.
  filetypes = { 'log', 'text', 'json', 'jsonc' },
  root_markers = { '.trainwreck', '.git' },
  init_options = settings.init_options(),
}
