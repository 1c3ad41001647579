--- Which files are logs by their name. Neovim 0.11 knows no general `log` filetype:
--- `run.log` opens without a filetype, and no server would attach.
local M = {}

--- The filetype of a file whose name looks like a run's output, or nil to leave it alone.
---@param path string
---@param bufnr integer not a buffer (-1) when only the name is asked about
function M.detect(_, bufnr)
  if not vim.api.nvim_buf_is_valid(bufnr) then
    return 'log'
  end
  local head = vim.api.nvim_buf_get_lines(bufnr, 0, 100, false)
  for _, line in ipairs(head) do
    -- A NUL byte: `a.out` is a program, no log.
    if line:find('\0', 1, true) then
      return nil
    end
  end
  -- LaTeX writes its bookmarks into `paper.out`.
  if (head[1] or ''):find('^\\') then
    return nil
  end
  -- What Neovim knows by the contents (a script, a patch, a trace) keeps its own filetype.
  return vim.filetype.match({ contents = #head > 0 and head or { '' } }) or 'log'
end

--- Whether a text file's name says that a run wrote it: rank_3.txt, train_log.txt, stdout.txt.
---@param path string
function M.names_output(path)
  local name = vim.fs.basename(path):lower()
  for _, pattern in ipairs({ '^rank[_%-]?%d', '^stdout', '^stderr', '^slurm', '^nohup', '%f[%a]logs?%f[%A]' }) do
    if name:find(pattern) then
      return true
    end
  end
  return false
end

--- Adds the names. The lowest priority: each name that Neovim, the user or another plugin
--- knows wins, and so `pacman.log`, `/log/auth.err` and `rank0.json` stay what they are.
function M.add()
  local pattern = {}
  for _, name in ipairs({
    '.*%.log', -- run.log
    '.*%.log%.%d+', -- rotated: run.log.1
    '.*%.out', -- slurm-4711.out, nohup.out
    '.*%.err', -- slurm-4711.err
    '.*%.[oe]%d+', -- PBS and Grid Engine: train.o4711, train.e4711
    'stdout', -- a launcher's redirected streams
    'stderr',
    '.*%.stdout',
    '.*%.stderr',
    '.*rank[_%-]?%d+', -- one file a rank: rank_3, log_rank3
  }) do
    pattern[name] = { M.detect, { priority = -math.huge } }
  end
  vim.filetype.add({ pattern = pattern })
end

--- Looks again at the files that were open before the names were known (a plugin loaded late).
function M.detect_open()
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    local plain = vim.api.nvim_buf_is_loaded(bufnr) and vim.bo[bufnr].buftype == ''
    if plain and vim.bo[bufnr].filetype == '' and vim.api.nvim_buf_get_name(bufnr) ~= '' then
      local filetype = vim.filetype.match({ buf = bufnr })
      if filetype then
        vim.bo[bufnr].filetype = filetype
      end
    end
  end
end

return M
