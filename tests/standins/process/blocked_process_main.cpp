// A tenant's process, in a mount namespace of its own, that blocks the readers of its memory, and so of
// /proc/<pid>/cmdline and /proc/<pid>/environ. One thread reads a mapped file through /proc/self/mem, and so waits,
// with its process's memory map locked for reading, for a page that its file system never supplies. Another thread
// wants to change the map: all who want to read it then wait for both. The file system (fuse(4)) is the parent, so that
// the end of the parent ends both. It prints "ready" when readers wait. Exit status 77: the kernel does not allow it
// here. It ends after 60 s at the latest, because it blocks every `ps` of the machine.
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

constexpr std::uintptr_t kPage = 4096;
constexpr unsigned kLongest = 60;   // seconds
constexpr std::uint64_t kFile = 2;  // its inode

[[noreturn]] void not_here() {
  ::_exit(77);
}

fuse_attr attributes(std::uint64_t inode) {
  fuse_attr file{};
  file.ino = inode;
  file.size = kPage;
  file.nlink = 1;
  file.mode = inode == kFile ? S_IFREG | 0644 : S_IFDIR | 0755;
  return file;
}

// The answer to a request; empty: none is sent.
template <class Body>
std::vector<char> answer(const fuse_in_header& request, const Body& body) {
  constexpr std::size_t kBody = std::is_empty_v<Body> ? 0 : sizeof body;
  std::vector<char> bytes(sizeof(fuse_out_header) + kBody);
  fuse_out_header head{};
  head.len = static_cast<std::uint32_t>(bytes.size());
  head.unique = request.unique;
  std::memcpy(bytes.data(), &head, sizeof head);
  if (kBody > 0) std::memcpy(bytes.data() + sizeof head, &body, kBody);
  return bytes;
}

std::vector<char> answer_to(const fuse_in_header& request) {
  struct Nothing {};
  switch (request.opcode) {
    case FUSE_INIT: {
      fuse_init_out init{};
      init.major = FUSE_KERNEL_VERSION;
      init.minor = 31;
      init.max_write = kPage;
      return answer(request, init);
    }
    case FUSE_LOOKUP: {
      fuse_entry_out entry{};
      entry.nodeid = kFile;
      entry.attr_valid = entry.entry_valid = 3600;
      entry.attr = attributes(kFile);
      return answer(request, entry);
    }
    case FUSE_GETATTR: {
      fuse_attr_out reply{};
      reply.attr_valid = 3600;
      reply.attr = attributes(request.nodeid);
      return answer(request, reply);
    }
    case FUSE_OPEN:
      return answer(request, fuse_open_out{});
    case FUSE_FLUSH:
    case FUSE_RELEASE:
      return answer(request, Nothing{});
    default:
      return {};
  }
}

// Returns when the page is read, without an answer.
void serve(int requests) {
  static std::vector<char> buffer(1 << 17);
  while (true) {
    const ssize_t got = ::read(requests, buffer.data(), buffer.size());
    if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) not_here();
    fuse_in_header request{};
    std::memcpy(&request, buffer.data(), sizeof request);
    if (request.opcode == FUSE_READ) return;
    const auto bytes = answer_to(request);
    if (!bytes.empty() && ::write(requests, bytes.data(), bytes.size()) < 0) not_here();
  }
}

[[noreturn]] void live(int page_is_read, std::atomic<pid_t>& writer) {
  const int file = ::open("/mnt/page", O_RDONLY | O_CLOEXEC);
  const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  void* const page = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, file, 0);
  if (file < 0 || memory < 0 || page == MAP_FAILED) not_here();
  std::thread([page_is_read, &writer] {
    char byte = 0;
    if (::read(page_is_read, &byte, 1) != 1) not_here();
    writer = ::gettid();
    (void)::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    not_here();
  }).detach();
  char byte = 0;
  (void)!::pread(memory, &byte, 1, static_cast<off_t>(reinterpret_cast<std::uintptr_t>(page)));
  not_here();
}

bool waits(pid_t process, pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/stat");
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  return stat.find(") D") != std::string::npos;
}

}  // namespace

int main() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kLongest);
  const int requests = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  const std::string options = "rootmode=40000,user_id=0,group_id=0,fd=" + std::to_string(requests);
  int read[2];
  void* const shared = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (requests < 0 || shared == MAP_FAILED || ::pipe2(read, O_CLOEXEC) != 0 || ::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("blocked", "/mnt", "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    return 77;
  auto& writer = *new (shared) std::atomic<pid_t>(0);
  const pid_t blocked = ::fork();
  if (blocked == 0) {
    ::close(requests);  // a file system that serves itself would never end
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    live(read[0], writer);
  }
  serve(requests);
  if (::write(read[1], "r", 1) != 1) return 77;
  while (writer == 0 || !waits(blocked, writer)) {
    if (::waitpid(blocked, nullptr, WNOHANG) != 0) return 77;
    ::usleep(1000);
  }
  if (::write(STDOUT_FILENO, "ready\n", 6) != 6) return 1;
  serve(requests);
  return 0;
}
