// Device-side malloc and free, new and delete, in recursive and virtual functions.
struct Node {
  int value;
  Node *left, *right;
};

__device__ __noinline__ Node* insert(Node* root, int v) {
  if (!root) {
    Node* n = static_cast<Node*>(malloc(sizeof(Node)));
    *n = Node{v, nullptr, nullptr};
    return n;
  }
  Node*& side = v < root->value ? root->left : root->right;
  side = insert(side, v);
  return root;
}

__device__ __noinline__ int walk(Node* root, int* out, int at) {
  if (!root) return at;
  at = walk(root->left, out, at);
  out[at++] = root->value;
  at = walk(root->right, out, at);
  free(root);
  return at;
}

extern "C" __global__ void sorted(const int* in, int n, int* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  Node* root = nullptr;
  for (int i = 0; i < n; ++i) root = insert(root, in[t * n + i]);
  walk(root, out + t * n, 0);
}

struct Shape {
  __device__ virtual int area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  int a;
  __device__ Square(int x) : a(x) {}
  __device__ int area() const override { return a * a; }
};
struct Box : Shape {
  int* sides;
  __device__ Box(int x, int y) : sides(new int[2]) {
    sides[0] = x;
    sides[1] = y;
  }
  __device__ int area() const override { return sides[0] * sides[1]; }
  __device__ ~Box() override { delete[] sides; }
};

extern "C" __global__ void shapes(int* out) {
  const int t = threadIdx.x;
  Shape* s = t % 2 ? static_cast<Shape*>(new Square(t)) : new Box(t, t + 1);
  out[t] = s->area();
  delete s;
}

// Until there is no more; nothing is given back.
extern "C" __global__ void greedy(unsigned long long bytes, int* out) {
  int n = 0;
  while (n < 1000 && malloc(bytes)) ++n;
  out[threadIdx.x] = n;
}

// One launch leaves a block for the next.
extern "C" __global__ void keep(int** kept, int value) {
  *kept = static_cast<int*>(malloc(4));
  **kept = value;
}
extern "C" __global__ void give_back(int** kept, int* out, int times) {
  *out = **kept;
  for (int i = 0; i < times; ++i) free(*kept);
}
